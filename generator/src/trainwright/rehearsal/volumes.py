"""Mounted volumes into folders of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from trainwright.pods.pod import Mount, Pod
from trainwright.rehearsal import RehearsalError

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - every machine has one


class Volumes:
    """Which folder stands for which mount.

    A claim is one folder for all pods, an emptyDir one for each, as on the cluster. Files of a
    ConfigMap that is rendered along are written; the rest starts as the folder is found.
    """

    def __init__(self, base: Path, pods: tuple[Pod, ...], configs: Mapping[str, Mapping[str, str]]):
        self._base = base
        self._pods = pods
        self._configs = configs
        self.files: dict[Path, str] = dict(self._config_files())

    def path(self, pod: Pod, text: str) -> str:
        """Text with every path on a volume of the pod replaced by the path here."""
        mounts = {mount.path.rstrip("/"): mount for mount in _mounts(pod)}
        if not mounts:
            return text
        # The longest first, since one volume may be mounted inside another; all in one go, since
        # the folder here may begin like a mount.
        paths = "|".join(map(re.escape, sorted(mounts, key=len, reverse=True)))
        return re.sub(
            rf"(?<![\w./-])({paths})(?![\w.-])",
            lambda match: str(self._local(pod, mounts[match.group()])),
            text,
        )

    def _local(self, pod: Pod, mount: Mount) -> Path:
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
        found: dict[Path, None] = {}
        for pod in self._pods:
            for mount in _mounts(pod):
                # The subPath of a ConfigMap is one of its files.
                file = "configMap" in mount.source
                found[self._folder(pod, mount) if file else self._local(pod, mount)] = None
        return tuple(found)

    def _config_files(self) -> Iterator[tuple[Path, str]]:
        for pod in self._pods:
            for mount in _mounts(pod):
                source = mount.source.get("configMap") or {}
                data = self._configs.get(source.get("name", ""), {})
                items = source.get("items") or [{"key": key, "path": key} for key in data]
                for item in items:
                    if item["key"] in data:
                        yield self._folder(pod, mount) / item["path"], data[item["key"]]

    def notes(self) -> Iterator[str]:
        """Which folder stands for which path; code that spells such a path will not find it."""
        said: dict[str, None] = {}
        for pod in self._pods:
            for mount in _mounts(pod):
                own = "/<pod>" if "emptyDir" in mount.source else ""
                folder = f"{self._base / mount.volume}{own}"
                said[f"volume: {mount.path} is {folder} in argv and env, {_was(mount)}"] = None
        yield from said


def _mounts(pod: Pod) -> Iterator[Mount]:
    return (mount for mount in pod.mounts if mount.path != _SHARED_MEMORY)


def _was(mount: Mount) -> str:
    kind = next(iter(mount.source), "a volume")
    detail = mount.source.get(kind) or {}
    name = detail.get("claimName") or detail.get("name") or detail.get("secretName") or ""
    return f"on the cluster {kind} {name}".rstrip()
