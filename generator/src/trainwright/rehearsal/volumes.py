"""Maps mounted volumes to folders of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from trainwright.datatypes.data import mapping, text
from trainwright.datatypes.frozen import dataclass
from trainwright.objects.pods.mounted import shown
from trainwright.objects.pods.pod import Configs, Mount, Pod
from trainwright.rehearsal import RehearsalError

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - every machine has one


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file's content, and the permissions to set, if any."""

    raw: bytes
    mode: int | None = None


class Volumes:
    """The mapping of mounts to folders of this machine.

    A claim is one folder for all pods, an emptyDir one for each pod, as on the cluster. Files of a
    ConfigMap that is rendered with the job are written: those that are mounted one by one lie below
    a folder that is the container's root, so that their own folders can be named as well.
    Other volumes start with the present content of their folder. `stand_ins` are the folders that
    replace a volume for the pods of a role.
    """

    def __init__(
        self,
        base: Path,
        pods: Sequence[Pod],
        configs: Configs,
        stand_ins: Mapping[tuple[str, str], Path] | None = None,
        files: Path | None = None,  # for those of the run; people's folders are for their volumes
    ):
        self._of_run = files or base
        self._base = base
        self._stand_ins = stand_ins or {}
        self._pods = pods
        self._configs = configs
        self.files: dict[Path, StagedFile] = dict(self._config_files())

    def path(self, pod: Pod, text: str) -> str:
        """Return text with every path on a volume of the pod replaced by the path here."""
        mounts = {mount.path.rstrip("/"): mount for mount in _mounts(pod)}
        if not mounts:
            return text
        here = {path: self._local(pod, mount) for path, mount in mounts.items()}
        above = {path: folder for path, folder in self._above(pod) if path not in here}
        # The longest paths first, since one volume may be mounted inside another; all in one pass,
        # since a local folder's path may begin like a mount. A folder that contains mounted files
        # is replaced only where it is named itself: the image may have more in it.
        return re.sub(
            rf"(?<![\w./-])(?:({_any(here)})(?![\w.-])|({_any(above)})(?=/?(?![\w./-])))",
            lambda match: str(here[match[1]] if match[1] else above[match[2]]),
            text,
        )

    def _above(self, pod: Pod) -> Iterator[tuple[str, Path]]:
        """Yield the parent folders of files mounted one by one, each with its local folder."""
        for mount in filter(self._is_file, _mounts(pod)):
            for folder in PurePosixPath(mount.path).parents:
                if folder != folder.parent:
                    yield str(folder), self._of_run / mount.volume / str(folder)[1:]

    def _is_file(self, mount: Mount) -> bool:
        """Whether a mount is a single file of a ConfigMap that is available here."""
        return bool(mount.sub_path) and mount.config in self._configs

    def _local(self, pod: Pod, mount: Mount) -> Path:
        if (pod.role, mount.volume) in self._stand_ins:
            return self._stand_ins[pod.role, mount.volume]
        if self._is_file(mount):
            return self._of_run / mount.volume / mount.path.lstrip("/")
        return self._folder(pod, mount) / mount.sub_path

    def _folder(self, pod: Pod, mount: Mount) -> Path:
        if ".." in PurePosixPath(mount.sub_path).parts or mount.sub_path.startswith("/"):
            raise RehearsalError(
                f"{pod.name}: the subPath {mount.sub_path} of {mount.path} leads out of the volume"
            )
        own = pod.name if "emptyDir" in mount.source else ""
        return self._base / mount.volume / own

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders that have to be there."""
        paths: dict[Path, None] = {}
        for pod in self._pods:
            for mount in _mounts(pod):
                if (pod.role, mount.volume) in self._stand_ins:
                    continue
                if self._is_file(mount):
                    continue  # it comes with its folders
                # The subPath of a ConfigMap is one of its files.
                file = "configMap" in mount.source
                paths[self._folder(pod, mount) if file else self._local(pod, mount)] = None
        return tuple(paths)

    def _config_files(self) -> Iterator[tuple[Path, StagedFile]]:
        for pod in self._pods:
            for mount in _mounts(pod):
                source = mapping(mount.source.get("configMap"))
                data = self._configs.get(mount.config, {})
                for item, inside in shown(source, data, mount.sub_path):
                    content = data[text(item.get("key"))]
                    raw = content if isinstance(content, bytes) else content.encode()
                    mode = item.get("mode", source.get("defaultMode"))
                    yield self._local(pod, mount) / inside, StagedFile(raw, mode)

    def notes(self) -> Iterator[str]:
        """Yield which folder replaces which path; code that hardcodes a path will miss it."""
        lines: dict[str, None] = {}
        for pod in self._pods:
            for mount in _mounts(pod):
                if folder := self._stand_ins.get((pod.role, mount.volume)):
                    lines[f"code: {mount.path} is {folder}"] = None
                    continue
                own = "/<pod>" if "emptyDir" in mount.source else ""
                here = f"{self._base / mount.volume}{own}"
                what = "file" if self._is_file(mount) else "volume"
                here = str(self._local(pod, mount)) if what == "file" else here
                lines[f"{what}: {mount.path} is {here} in argv and env, {_was(mount)}"] = None
        yield from lines


def _any(paths: Mapping[str, Path]) -> str:
    """Return a pattern that matches any of the paths, or nothing at all if there are none."""
    return "|".join(map(re.escape, sorted(paths, key=len, reverse=True))) or "(?!)"


def _mounts(pod: Pod) -> Iterator[Mount]:
    return (mount for mount in pod.mounts if mount.path != _SHARED_MEMORY)


def _was(mount: Mount) -> str:
    kind = next(iter(mount.source), "a volume")
    detail = mount.source.get(kind) or {}
    name = detail.get("claimName") or detail.get("name") or detail.get("secretName") or ""
    return f"on the cluster {kind} {name}".rstrip()
