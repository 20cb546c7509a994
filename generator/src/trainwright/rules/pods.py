"""What a pod needs so that a run survives its own end, its node's end and its neighbours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.datatypes.tolerant import dig, mapping, mappings, sequence, text
from trainwright.pods.launching import SHELLS, script_trains
from trainwright.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.quota import candidates

_CHECKPOINTS = re.compile(r"checkpoint|ckpt", re.IGNORECASE)


def _saves(template: PodTemplate) -> bool:
    """Whether anything in the pods speaks of checkpoints."""
    return any(
        any(_CHECKPOINTS.search(name) for name in container.variables)
        or any(_CHECKPOINTS.search(word) for word in container.command_line)
        for container in template.trains
    )


@warning(
    id="TW711",
    summary="Pods that save checkpoints have more than 30 seconds to stop.",
    effect="A preempted pod is killed while it saves, and the checkpoint is lost.",
    remedy="Raise gracePeriod above the time that a checkpoint takes.",
    by_hand="Raise terminationGracePeriodSeconds above the time that a checkpoint takes.",
    spec=Pointer("/gracePeriod"),
    source="https://github.com/pytorch/pytorch/issues/68258",
    per_pod=True,
    passes=pod("env: [{name: CHECKPOINT_DIR}]", ", terminationGracePeriodSeconds: 120"),
    fails=pod("env: [{name: CHECKPOINT_DIR}]"),
)
def short_grace_period(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        grace = count(template.spec.get("terminationGracePeriodSeconds"))
        if grace is None and template.partial:
            continue
        if (30 if grace is None else grace) <= 30 and _saves(template):
            found = "30 (the default)" if grace is None else str(grace)
            message = f"checkpoints are saved, but there are {found} seconds to stop"
            yield Hit(f"{template.pointer}/spec", message)


_EXEC = re.compile(r"(?:^|[;&|\n]\s*|\s)exec\s")


@warning(
    id="TW712",
    summary="A shell that starts the training replaces itself by it with exec.",
    effect="SIGTERM ends the shell only; the training is killed without saving.",
    remedy="Write exec before the command, or start it without a shell.",
    spec=Pointer("/entrypoint"),
    source="https://github.com/pytorch/pytorch/issues/119856",
    per_pod=True,
    passes=pod("command: [bash, -c, exec torchrun train.py]"),
    fails=pod("command: [bash, -c, torchrun train.py]"),
)
def shell_without_exec(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            words = container.command_line
            if not words or not SHELLS.fullmatch(words[0]):
                continue
            script = _script(words[1:])
            if script_trains(script) and not _EXEC.search(script):
                yield Hit(container.pointer, f"{words[0]} -c runs the training without exec")


def _script(words: Sequence[str]) -> str:
    """What a shell is given to run with -c, by its options and arguments."""
    flags = [i for i, word in enumerate(words[:2]) if re.fullmatch("-[a-z]*c", word)]
    after = [word for word in words[flags[0] + 1 :] if word != "--"] if flags else []
    return after[0] if after else ""


REPEATED_NAME = "TW713"


@error(
    id=REPEATED_NAME,
    summary="Containers, variables, volumes and mount paths are there once.",
    effect="Server-side apply fails, or the API server refuses the pods.",
    remedy="Keep one of them.",
    spec=Pointer("/volumes"),
    source="https://kubernetes.io/docs/reference/using-api/server-side-apply/",
    per_pod=True,
    passes=pod("env: [{name: A, value: x}, {name: B, value: x}]"),
    fails=pod("env: [{name: A, value: x}, {name: A, value: y}]"),
)
def repeated_name(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        volumes = [(pointer, text(volume.get("name"))) for pointer, volume in template.volumes]
        yield from _repeated(volumes, "the volume", Pointer("/volumes"))
        containers = (*template.containers, *template.ephemeral)
        # The one that trains is named by the target, so that another has to give way.
        names = [(c.pointer, c.name) for c in reversed(containers) if c.name]
        yield from _repeated(names, "the container", Pointer())
        for container in containers:
            at = container.pointer
            env = [(f"{at}/env/{i}", text(e.get("name"))) for i, e in enumerate(container.env)]
            yield from _repeated(env, "the variable", Pointer("/env"))
            mounts = [
                (f"{at}/volumeMounts/{index}", text(mount.get("mountPath")).rstrip("/") or "/")
                for index, mount in enumerate(mappings(container.body.get("volumeMounts")))
            ]
            yield from _repeated(mounts, "the mount path", Pointer("/volumes"))


def _repeated(found: Sequence[tuple[str, str]], what: str, spec: Pointer) -> Iterator[Hit]:
    """Each name that is there several times, where it is there first."""
    if len({name for _, name in found}) == len(found):
        return
    for name, times in Counter(name for _, name in found).items():
        if times > 1:
            pointer = next(pointer for pointer, other in found if other == name)
            yield Hit(pointer, f"{what} {name!r} is there {times} times", spec)


# Devices, what the kernel says, sockets and drivers: each node has its own, and shall have.
_OF_THE_NODE = re.compile(r"/(dev|proc|sys|run|var/run|home/kubernetes/bin)(/|$)")


@warning(
    id="TW717",
    summary="Jobs on several nodes do not mount a folder of the node.",
    effect="Each rank reads and writes other data, and a moved pod finds nothing.",
    remedy="Use a claim that all nodes can mount.",
    spec=Pointer("/volumes"),
    source="https://kubernetes.io/docs/concepts/storage/volumes/#hostpath",
    passes=pod("image: a", ", volumes: [{name: d, hostPath: {path: /d}}]", "replicas: 1, "),
    fails=pod("image: a", ", volumes: [{name: d, hostPath: {path: /d}}]", "replicas: 2, "),
)
def host_path_on_several_nodes(subject: Subject) -> Iterator[Hit]:
    pods = sum(template.replicas for template in subject.templates)
    if pods < 2:
        return
    for template in subject.templates:
        for pointer, volume in template.volumes:
            if "hostPath" in volume and not _OF_THE_NODE.match(
                text(dig(volume, "hostPath", "path"))
            ):
                name = text(volume.get("name"))
                message = f"{name} is a hostPath: {pods} pods see the disks of different nodes"
                yield Hit(f"{pointer}/hostPath", message, spec=Pointer.of("volumes", name))


_CHECKPOINT_DIR = "TRAINWRIGHT_CHECKPOINT_DIR"
# How the nodes that may be taken away are labelled by those who rent them out.
_SPOT = {
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "karpenter.sh/capacity-type": "spot",
}


@warning(
    id="TW718",
    summary="Jobs on spot nodes save checkpoints.",
    effect="Each preemption starts the training from zero.",
    remedy="Add checkpoint, or choose a pool that is not spot.",
    by_hand="Save checkpoints, or choose nodes that are not spot.",
    spec=Pointer("/pool"),
    source="https://kubernetes.io/docs/concepts/architecture/nodes/#node-shutdown",
    per_pod=True,
    passes=pod(f"env: [{{name: {_CHECKPOINT_DIR}, value: /ckpt}}]"),
    passes_in="pools: {spot: {resource: nvidia.com/gpu, spot: true}}",
    fails=pod("image: a"),
    fails_in="pools: {spot: {resource: nvidia.com/gpu, spot: true}}",
)
def spot_without_checkpoints(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        where = _spot(subject, template)
        if not where:
            continue
        saves = _CHECKPOINT_DIR in (name for c in template.trains for name in c.variables)
        if not (saves or (subject.job is None and _saves(template))):
            yield Hit(f"{template.pointer}/spec", f"{where}, and nothing is saved")


def _spot(subject: Subject, template: PodTemplate) -> str:
    """Why the pods are sure to run on spot nodes, or nothing."""
    if any(pool.spot for pool in subject.environment.pools.values()):
        pools = candidates(subject, template)
        if pools and all(pool.spot for pool in pools):
            return f'the pool "{pools[0].name}" is spot'
    selector = mapping(template.spec.get("nodeSelector"))
    labels = [f"{key}={value}" for key, value in _SPOT.items() if selector.get(key) == value]
    return f"the nodes are spot ({labels[0]})" if labels else ""


@warning(
    id="TW719",
    summary="Checkpoints of a job whose pods are replaced are not on an emptyDir.",
    effect="The volume goes away with the pod, and the retry starts from zero.",
    remedy="Put checkpoints on a claim.",
    spec=Pointer("/checkpoint/volume"),
    source="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
    per_pod=True,
    passes=pod(
        f"env: [{{name: {_CHECKPOINT_DIR}, value: /v/c}}], "
        "volumeMounts: [{name: v, mountPath: /v}]",
        ", volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]",
    ),
    fails=pod(
        f"env: [{{name: {_CHECKPOINT_DIR}, value: /v/c}}], "
        "volumeMounts: [{name: v, mountPath: /v}]",
        ", volumes: [{name: v, emptyDir: {}}]",
    ),
)
def checkpoints_lost_with_pod(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if template.retried is not True or not any(
            _CHECKPOINT_DIR in container.variables for container in template.trains
        ):
            continue
        scratch = {text(v.get("name")) for _, v in template.volumes if "emptyDir" in v}
        for container in template.trains:
            mounts = [mapping(m) for m in sequence(container.body.get("volumeMounts"))]
            paths = [text(m.get("mountPath")) for m in mounts if text(m.get("name")) in scratch]
            for index, entry in enumerate(container.env):
                folder = text(entry.get("value")) if entry.get("name") == _CHECKPOINT_DIR else ""
                if any(folder.startswith(f"{path.rstrip('/')}/") for path in paths if path):
                    pointer = f"{container.pointer}/env/{index}"
                    yield Hit(pointer, f"checkpoints go to {folder}, an emptyDir")


@warning(
    id="TW721",
    summary="Ranks do not talk through the loopback interface.",
    effect="Pods reach only themselves, and the job hangs at its first collective.",
    remedy="Name the pod's interface (eth0), or exclude loopback with ^lo.",
    spec=Pointer("/env"),
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    per_pod=True,
    passes=pod("env: [{name: NCCL_SOCKET_IFNAME, value: ^lo}]"),
    fails=pod("env: [{name: NCCL_SOCKET_IFNAME, value: lo}]"),
)
def loopback_rendezvous(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for index, entry in enumerate(container.env):
            if entry.get("name") in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
                names = text(entry.get("value")).removeprefix("=").split(",")
                if "lo" in names:
                    pointer = f"{container.pointer}/env/{index}"
                    yield Hit(
                        pointer, f"{entry['name']} is lo", spec=Pointer.of("env", entry["name"])
                    )


RULES = defined_in(globals())
