"""torch's reader and writer of checkpoint files, with digests and restricted unpickling."""

from __future__ import annotations

import copyreg
import errno
import io
import os
import pickle
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import torch
from torch.distributed.checkpoint import filesystem, metadata
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING
from torch.distributed.checkpoint.planner import ReadItem, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future
from torch.utils.serialization import config as serialization_config

from trainwright_runtime.checkpoint.digests import Digest
from trainwright_runtime.checkpoint.errors import CheckpointError
from trainwright_runtime.checkpoint.objects import ObjectFiles, ObjectPath
from trainwright_runtime.checkpoint.process import WriterProcess

METADATA = ".metadata"
"""The file that torch keeps a checkpoint's metadata in."""

# By value on every Python: some pickle a member of an enum as a call of `getattr`, which reaches
# anything. https://docs.python.org/3/library/copyreg.html
copyreg.pickle(_MEM_FORMAT_ENCODING, lambda member: (_MEM_FORMAT_ENCODING, (member.value,)))


class Writer(filesystem.FileSystemWriter):
    """Writes and syncs files, and keeps the digests of what was written and the first failure.

    With `process`, that process writes the files of tensors.
    """

    def __init__(self, folder: Path, process: WriterProcess | None = None) -> None:
        super().__init__(folder, sync_files=True)
        self.fs = self.files = _Digesting()
        self._folder, self._process = folder, process

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the tensors of a plan, in the writer process if there is one."""
        if self._process is None:
            # The digests cover every byte: torch need not compute its own checksums.
            with serialization_config.patch("save.compute_crc32", False):  # type: ignore[attr-defined]
                return super().write_data(plan, planner)
        tensors: list[Any] = [planner.resolve_data(item) for item in plan.items]
        try:
            outcome = self._process.write(self._folder, plan, tensors)
        except OSError as error:
            self.files.error = error
            raise
        self.files.digests |= outcome.digests
        if outcome.error is not None:
            self.files.error = outcome.error
            raise outcome.error
        written: Future[list[WriteResult]] = Future()
        written.set_result(outcome.results)
        return written

    def finish(self, metadata: metadata.Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata and read it back, so that what cannot be loaded fails now."""
        super().finish(metadata, results)
        Reader(self._folder).read_metadata()

    def storage_meta(self) -> metadata.StorageMeta:
        return metadata.StorageMeta()  # torch's has the path, which is not where it will be read


class _Digesting(filesystem.FileSystem):
    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        # Kept here because what reaches the caller is torch's complaint about its unfinished
        # archive, or a copy of the error that came from another process without its cause.
        self.error: OSError | None = None

    @contextmanager
    def create_stream(
        self, path: str | os.PathLike[str], mode: str
    ) -> Generator[io.IOBase, None, None]:
        if mode != "wb":
            with super().create_stream(path, mode) as plain:
                yield plain
            return
        try:
            with Path(path).open(mode) as file:
                stream = _Digested(file, self)
                yield stream
                self.digests[Path(path).name] = stream.digest()
        except OSError as error:
            self.error = self.error or error
            raise

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        super().rename(path, new_path)
        self.digests[Path(new_path).name] = self.digests.pop(Path(path).name)


class _Digested(io.IOBase):
    """A file that is written front to back, and its digest.

    The digest is of the bytes passed in, not of those read back, which may be damaged by then.
    """

    def __init__(self, file: IO[bytes], files: _Digesting) -> None:
        self._file, self._files = file, files
        self._digest, self._size = Digest(), 0

    def write(self, data: bytes) -> int:
        try:
            written = self._file.write(data)
        except OSError as error:
            self._files.error = self._files.error or error
            raise
        self._digest.update(data)
        self._size += written
        return written

    def tell(self) -> int:
        return self._file.tell()

    def fileno(self) -> int:
        self._file.flush()  # torch gets it to sync the file
        return self._file.fileno()

    def flush(self) -> None:
        # What a signal ends before it has a file is closed all the same; Python 3.13 reports that.
        if hasattr(self, "_file") and not self._file.closed:
            self._file.flush()

    def digest(self) -> str:
        """Return the digest of the whole file. Raise OSError if it was cut short."""
        if os.fstat(self.fileno()).st_size != self._size:
            raise OSError(errno.EIO, "it was cut short while it was written", self._file.name)
        return self._digest.hexdigest()


class Reader(filesystem.FileSystemReader):
    """Reads tensors with `weights_only`, as torch does, and unpickles the metadata as strictly."""

    def __init__(self, checkpoint: Path | ObjectPath) -> None:
        super().__init__(str(checkpoint))
        self._checkpoint = checkpoint
        if isinstance(checkpoint, ObjectPath):
            self.fs, self.path = ObjectFiles(checkpoint.fs), checkpoint.path  # type: ignore[assignment]

    def read_metadata(self, *_args: object, **_options: object) -> metadata.Metadata:
        content = (self._checkpoint / METADATA).read_bytes()
        return unpickled_metadata(io.BytesIO(content), str(self._checkpoint))


class LoadPlanner(DefaultLoadPlanner):
    """A load planner for tensors only: torch would unpickle anything else without restriction."""

    def load_bytes(self, read_item: ReadItem, _value: io.BytesIO) -> None:
        raise CheckpointError(f"{read_item.dest_index.fqn} is not a tensor in the checkpoint")


def unpickled_metadata(file: IO[bytes], checkpoint: str) -> metadata.Metadata:
    """Return the metadata in the file METADATA, unpickling known classes only.

    torch unpickles this file without restriction, which runs any code in it:
    https://docs.python.org/3/library/pickle.html#restricting-globals
    """
    unpickled = _Unpickler(file).load()
    if not isinstance(unpickled, metadata.Metadata):
        raise CheckpointError(f"{checkpoint}/{METADATA} does not hold a checkpoint's metadata")
    return unpickled


class _Unpickler(pickle.Unpickler):
    # By exact names: a dotted one ("os.system") would reach modules that the module imports.
    _KNOWN: ClassVar = {
        (known.__module__, known.__name__): known
        for known in (
            metadata.BytesStorageMetadata,
            metadata.ChunkStorageMetadata,
            metadata.Metadata,
            metadata.MetadataIndex,
            metadata.StorageMeta,
            metadata.TensorProperties,
            metadata.TensorStorageMetadata,
            _MEM_FORMAT_ENCODING,
            filesystem._StorageInfo,
            torch.serialization._get_layout,
            torch.Size,
        )
    } | {
        ("torch", name): value
        for name, value in vars(torch).items()
        if isinstance(value, torch.dtype)
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._KNOWN[module, name]
        except KeyError:
            raise CheckpointError(
                f"`.metadata` names {module}.{name}, which no checkpoint needs: "
                "it was tampered with, or written by another version of torch"
            ) from None
