"""Where a spec has each field of a Kubernetes pod, container and mount.

People who know Kubernetes write its names; the error for such a key names its place in a spec, or
why it has no place. What is found in rendered pods and in patches is reported there, too
(`authored`). A field that a later version adds has to be entered here, unless `datatypes/job.py`
declares that a job has it unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.datatypes.fields import spelled
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import CONTAINER_FIELDS, POD_FIELDS
from trainwright.datatypes.pointer import Pointer


@dataclass(frozen=True, slots=True)
class Place:
    """The fields of a spec that correspond to a Kubernetes field, if any, and an explanation.

    `patch` is whether a podPatch may set it.
    """

    fields: tuple[str, ...] = ()
    why: str = ""
    patch: bool = False

    @property
    def at(self) -> Pointer:
        """A pointer to the first field, up to a placeholder such as `<name>`; empty if none."""
        prefix = self.fields[0].partition(".<")[0] if self.fields else ""
        return Pointer.of(*filter(None, prefix.split(".")))

    @property
    def remedy(self) -> str:
        """What to do with a field that was written under its Kubernetes name."""
        if not self.fields and not self.patch:
            return f"Remove it: {self.why}."
        why = f"{self.why[:1].upper()}{self.why[1:]}. " if self.why else ""
        return f"{why}Write {' or '.join(self.fields) or 'it in podPatch'}."


def _at(*fields: str, why: str = "") -> Place:
    return Place(fields, why)


def _patched(why: str = "") -> Place:
    return Place((), why, patch=True)


def _refused(why: str) -> Place:
    return Place((), why)


def _as_they_are(fields: Mapping[str, str]) -> dict[str, Place]:
    """Return the places of fields that a job has just as Kubernetes does."""
    return {key: _at(spelled(name)) for name, key in fields.items()}


_NAMES = _refused("the target names its pods, by which they find each other")
_NO_TERMINAL = _patched("no terminal is attached to it")

POD: Mapping[str, Place] = {
    **_as_they_are(POD_FIELDS),
    "activeDeadlineSeconds": _at("maxDuration", why="a run has one for all of its pods"),
    "affinity": _at("affinity"),
    "automountServiceAccountToken": _at("serviceAccountToken"),
    "containers": _at("entrypoint", "sidecars"),
    "ephemeralContainers": _refused("only pods that run can have them"),
    "evictionResponders": _patched("clusters have it behind a feature gate"),
    "hostname": _NAMES,
    "hostnameOverride": _NAMES,
    "imagePullSecrets": _at("image.pullSecrets"),
    "initContainers": _at("initContainers", "sidecars"),
    "nodeName": _refused("it goes around the scheduler, and so around queues and quotas"),
    "nodeSelector": _at("nodeSelector"),
    "os": _patched("training runs on Linux"),
    "overhead": _refused("the RuntimeClass sets it"),
    "preemptionPolicy": _refused("the PriorityClass sets it"),
    "priority": _refused(
        "the PriorityClass that priorityClass names has it; queuePriority is who goes first in a "
        "queue of Kueue, and lattice.priority that of a TrainingJob"
    ),
    "readinessGates": _patched("no rank waits for another one to be ready"),
    "resourceClaims": _at("resourceClaims"),
    "resources": _at("resources", why="they are those of the container that trains"),
    "restartPolicy": _at("retries"),
    "schedulerName": _at("schedulerName", "gang", "queue"),
    "schedulingGates": _refused("Kueue sets and removes them"),
    "schedulingGroup": _at("gang"),
    "securityContext": _at("security"),
    "serviceAccount": _at("serviceAccount"),
    "serviceAccountName": _at("serviceAccount"),
    "setHostnameAsFQDN": _NAMES,
    "subdomain": _NAMES,
    "terminationGracePeriodSeconds": _at("gracePeriod"),
    "tolerations": _at("tolerations"),
    "volumes": _at("volumes"),
}
CONTAINER: Mapping[str, Place] = {
    **_as_they_are(CONTAINER_FIELDS),
    "args": _at("flags", "entrypoint.args"),
    "command": _at("entrypoint.argv"),
    "env": _at("env", "secrets"),
    "envFrom": _at("envFrom"),
    "image": _at("image"),
    "imagePullPolicy": _at("image.pullPolicy"),
    "name": _refused("the target names its container itself"),
    "ports": _at("metrics.port", why="the target sets the port of the rendezvous"),
    "resizePolicy": _patched(),
    "resources": _at("resources", "resourceClaims"),
    "restartPolicy": _at("retries"),
    "restartPolicyRules": _patched("clusters have it behind a feature gate"),
    "securityContext": _at("security"),
    "stdin": _NO_TERMINAL,
    "stdinOnce": _NO_TERMINAL,
    "tty": _NO_TERMINAL,
    "volumeDevices": _at("volumes.<name>.devicePath"),
    "volumeMounts": _at("volumes.<name>.mountPath", "volumes.<name>.mounts"),
}
MOUNT: Mapping[str, Place] = {
    "bindMountOptions": _patched("clusters have it behind a feature gate"),
    "mountPath": _at("mountPath"),
    "mountPropagation": _at("mountPropagation"),
    "name": _at("volumes.<name>"),
    "readOnly": _at("readOnly"),
    "recursiveReadOnly": _at("recursiveReadOnly"),
    "subPath": _at("subPath"),
    "subPathExpr": _at("subPathExpr"),
}
# By the type of Kubernetes.
FIELDS: Mapping[str, Mapping[str, Place]] = {
    "PodSpec": POD,
    "Container": CONTAINER,
    "VolumeMount": MOUNT,
}


def of_job(name: str) -> Place | None:
    """Return where a job spec has a field of a pod or its container, or None for other names."""
    return POD.get(name) or CONTAINER.get(name)
