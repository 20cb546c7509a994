"""The files of a checkpoint are digested while they are written, whatever ends the writing."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import xxhash

from trainwright_runtime.checkpoint import storage
from trainwright_runtime.checkpoint.digests import difference

PIECES = [bytes([number]) * 700_001 for number in range(9)]


@pytest.fixture
def files(tmp_path: Path) -> storage._Digesting:
    return storage.Writer(tmp_path).files


def write(
    files: storage._Digesting,
    path: Path,
    pieces: Iterable[bytes] = PIECES,
    last: Callable[[], None] = lambda: None,
) -> None:
    with files.create_stream(path, "wb") as stream:
        for piece in pieces:
            stream.write(piece)
        os.fsync(stream.fileno())
        last()


def ended_by(error: BaseException) -> Callable[[], None]:
    def end() -> None:
        raise error

    return end


@contextmanager
def file_size(limit: int) -> Iterator[None]:
    """What a full disk does at a known place."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_digest_is_that_of_the_file(tmp_path: Path, files: storage._Digesting) -> None:
    for pieces in ([], [b""], [b"x"], PIECES):
        write(files, tmp_path / "file", pieces)
        content = (tmp_path / "file").read_bytes()
        assert content == b"".join(pieces)
        assert files.digests == {"file": xxhash.xxh3_128(content).hexdigest()}


@pytest.mark.parametrize("error", [ValueError("first"), KeyboardInterrupt("first")])
def test_what_ends_the_writing_is_what_is_raised(
    error: BaseException, tmp_path: Path, files: storage._Digesting
) -> None:
    with pytest.raises(type(error), match="first"):
        write(files, tmp_path / "file", last=ended_by(error))
    assert not files.digests
    assert files.error is None


@pytest.mark.parametrize("limit", [100, 700_000, 2_500_000])
def test_a_disk_that_is_full_in_the_middle_is_the_error(
    limit: int, tmp_path: Path, files: storage._Digesting
) -> None:
    with file_size(limit), pytest.raises(OSError, match="File too large") as refused:
        write(files, tmp_path / "file")
    assert refused.value.errno == errno.EFBIG
    assert files.error is not None
    assert files.error.errno == errno.EFBIG
    assert not files.digests


def test_torch_s_complaint_does_not_hide_what_the_disk_refused(
    tmp_path: Path, files: storage._Digesting
) -> None:
    """Its archive swallows the first error, and raises one of its own when it is closed."""

    def as_torch() -> None:
        with files.create_stream(tmp_path / "file", "wb") as stream:
            with suppress(OSError):
                stream.write(PIECES[0])
            raise RuntimeError("unexpected pos")

    with file_size(100_000), pytest.raises((OSError, RuntimeError)):
        as_torch()
    assert files.error is not None
    assert files.error.errno == errno.EFBIG


@pytest.mark.parametrize("size", [0, 1, 700_001 * 9 - 1])
def test_a_file_that_another_process_cuts_short_is_not_taken_for_whole(
    size: int, tmp_path: Path, files: storage._Digesting
) -> None:
    path = tmp_path / "file"
    with pytest.raises(OSError, match="cut short while it was written"):
        write(files, path, last=lambda: os.truncate(path, size))
    assert files.error is not None
    assert not files.digests


def test_the_digest_is_of_what_was_written_and_not_of_what_became_of_it(
    tmp_path: Path, files: storage._Digesting
) -> None:
    path = tmp_path / "file"
    write(files, path, last=lambda: path.write_bytes(bytes(700_001 * 9)))
    with path.open("rb") as file:
        assert difference(file, files.digests["file"]) is not None
