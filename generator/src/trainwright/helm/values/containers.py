"""Init containers and sidecars of a job, as the pod has them."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.job import Container, Job, Security
from trainwright.datatypes.volumes import Mount
from trainwright.helm.values import variables


def init_containers(job: Job) -> list[dict[str, Data]]:
    """Return the containers that start before training: init containers, then native sidecars.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    """
    sidecars = ({**_container(c), "restartPolicy": "Always"} for c in job.sidecars)
    return [*map(_container, job.init_containers), *sidecars]


def _container(container: Container) -> dict[str, Data]:
    """Return a container, without fields that are empty."""
    fields: dict[str, Data] = {
        "name": container.name,
        "image": container.image,
        "command": list(container.command),
        "args": list(container.args),
        "env": variables.entries(container.env, container.secrets),
        "envFrom": [source.reference for source in container.env_from],
        **container.parts,
        # What the API server adds to an item of a list would show as drift.
        "ports": [{"protocol": "TCP", **port} for port in container.parts.get("ports", ())],
        "securityContext": security(container.security),
        "volumeMounts": list(_mounts(container)),
    }
    return {key: value for key, value in fields.items() if value not in ("", [], {})}


def _mounts(container: Container) -> Iterator[dict[str, Data]]:
    for volume, mounts in sorted(container.mounts.items()):
        for mount in mounts:
            yield {"name": volume, **place(mount)}


def place(mount: Mount) -> dict[str, Data]:
    """Return where a volume appears in a container."""
    fields: dict[str, Data] = {
        "mountPath": mount.mount_path,
        "subPath": mount.sub_path,
        "subPathExpr": mount.sub_path_expr,
        "readOnly": mount.read_only,
        "mountPropagation": mount.mount_propagation,
        "recursiveReadOnly": mount.recursive_read_only,
    }
    return {key: value for key, value in fields.items() if value}


def security(declared: Security) -> dict[str, Data]:
    """Return a container's security context: its rights and user, nothing that is not set."""
    ids = {
        "runAsUser": declared.run_as_user,
        "runAsGroup": declared.run_as_group,
        "runAsNonRoot": declared.run_as_non_root,
        "seccompProfile": dict(declared.seccomp_profile) or None,
        "appArmorProfile": dict(declared.app_armor_profile) or None,
        "seLinuxOptions": dict(declared.se_linux_options) or None,
    }
    return {**rights(declared), **{key: value for key, value in ids.items() if value is not None}}


def rights(declared: Security) -> dict[str, Data]:
    """Return the fields of a container's security context that a pod's does not have."""
    added = list(declared.capabilities)
    # A privileged container has all capabilities, and the API refuses one that may not gain
    # privileges.
    dropped = [] if declared.privileged else ["ALL"]
    switches = {
        "privileged": declared.privileged,
        "readOnlyRootFilesystem": declared.read_only_root_filesystem,
    }
    return {
        "allowPrivilegeEscalation": bool(
            declared.privileged or declared.allow_privilege_escalation
        ),
        "capabilities": {"drop": dropped, **({"add": added} if added else {})},
        **{key: True for key, value in switches.items() if value},
    }
