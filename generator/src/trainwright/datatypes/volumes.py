"""Volumes of a job, and where they are mounted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from trainwright.datatypes.data import Data
from trainwright.datatypes.fields import NOT_WRITTEN, written
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim to create. It outlives the run, since it holds the run's results."""

    size: str
    storage_class: str = ""  # empty: the cluster's default
    access_modes: tuple[str, ...] = ()  # empty: decided by `values` from the number of nodes


# The volume sources of a pod, by their names there; further forms of the first few are our own.
# https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume/
VOLUME_SOURCES = frozenset(
    {
        "hostPath",
        "emptyDir",
        "configMap",
        "secret",
        "nfs",
        "persistentVolumeClaim",
        "csi",
        "ephemeral",
        "projected",
        "downwardAPI",
        "image",
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "iscsi",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)
_NAMED_SOURCES = {"configMap": "name", "secret": "secretName"}


def _volume_source(data: Mapping[str, Data]) -> dict[str, Data]:
    """The Kubernetes volume source of a volume, whichever form it is written in."""
    if "claim" in data:
        return {"persistentVolumeClaim": {"claimName": data["claim"]}}
    return {
        key: {_NAMED_SOURCES[key]: value} if isinstance(value, str) else dict(value)
        for key, value in data.items()
        if key in VOLUME_SOURCES
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A place where a volume appears in a container."""

    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    mount_propagation: str = ""
    recursive_read_only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One volume. `source` is the Kubernetes volume source, without the name.

    It appears at `mount_path`, unless that is empty, and at each of the further `mounts`; without a
    file system, as a block device at `device_path`. A volume with `create` has no source yet: its
    claim is named after the job.
    """

    name: str = field(metadata=NOT_WRITTEN)
    mount_path: str = ""
    source: Mapping[str, Data] = field(metadata=written(whole=True, read=_volume_source))
    sub_path: str = ""
    read_only: bool = False
    create: Claim | None = None
    sub_path_expr: str = ""
    mount_propagation: str = ""
    recursive_read_only: str = ""
    mounts: tuple[Mount, ...] = ()
    device_path: str = ""

    @property
    def mounted(self) -> tuple[Mount, ...]:
        """All of the volume's mounts in the training container."""
        if not self.mount_path:
            return self.mounts
        first = Mount(
            mount_path=self.mount_path,
            sub_path=self.sub_path,
            sub_path_expr=self.sub_path_expr,
            read_only=self.read_only,
            mount_propagation=self.mount_propagation,
            recursive_read_only=self.recursive_read_only,
        )
        return (first, *self.mounts)

    @property
    def places(self) -> tuple[tuple[Pointer, Mount], ...]:
        """The mounts, each with where it is written."""
        at = Pointer.of("volumes", self.name)
        first = (at,) if self.mount_path else ()
        further = (at / "mounts" / index for index in range(len(self.mounts)))
        return tuple(zip((*first, *further), self.mounted, strict=True))
