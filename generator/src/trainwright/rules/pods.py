"""What a pod needs so that a run survives its own end, its node's end and its neighbours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.datatypes.tolerant import dig, mapping, mappings, text
from trainwright.pods.launching import (
    SHELLS,
    addresses,
    launches,
    options,
    script_trains,
    torchruns,
    training_is_followed,
)
from trainwright.pods.storage import mount_at, saved, saves, volume_of
from trainwright.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.quota import candidates


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
    near_misses=(
        pod('command: [train, --gradient_checkpointing, "true"]'),
        pod("command: [train, --activation-checkpointing]"),
        pod("command: [train, --pretrained_checkpoint=/models/a.ckpt]"),
        pod('command: [sh, -c, "train --use-checkpoint --save-checkpoints no"]'),
    ),
    variants=(
        pod("command: [train, --checkpoint-every, '100']"),
        pod('command: [sh, -c, "train --output_dir /out"]'),
    ),
)
def short_grace_period(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        grace = count(template.spec.get("terminationGracePeriodSeconds"))
        if grace is None and template.partial:
            continue
        if (30 if grace is None else grace) <= 30 and saves(template):
            found = "30 (the default)" if grace is None else str(grace)
            message = f"checkpoints are saved, but there are {found} seconds to stop"
            yield Hit(f"{template.pointer}/spec", message)


_EXEC = re.compile(r"(?:^|[;&|\s])exec\s")
_TRAP = re.compile(r"(?:^|[;&|\n])[ \t]*+trap\s")
_WAIT = re.compile(r"\bwait\b")


def _forwards(script: str) -> bool:
    """Whether a script waits for what it started, and passes signals on."""
    trap = _TRAP.search(script)
    return bool(trap and _WAIT.search(script, trap.end()))


@warning(
    id="TW712",
    summary="A shell that starts the training passes SIGTERM on to it.",
    effect="SIGTERM ends the shell only; the training is killed without saving.",
    remedy="Write exec before the training, or start it without a shell. Where commands follow it, "
    "exec would drop them: pass the signal on instead, with trap 'kill -TERM $pid' TERM; train & "
    "pid=$!; wait $pid; wait $pid.",
    spec=Pointer("/entrypoint"),
    source="https://github.com/pytorch/pytorch/issues/119856",
    per_pod=True,
    passes=pod("command: [bash, -c, exec torchrun train.py]"),
    fails=pod("command: [bash, -c, torchrun train.py]"),
    near_misses=(
        pod("command: [bash, -c, 'trap \"kill -TERM $p\" TERM; torchrun a.py & p=$!; wait $p']"),
        pod("command: [bash, -c, pip install a]"),
    ),
    variants=(pod("command: [bash, -c, 'torchrun train.py; cp -r /out /mnt']"),),
)
def shell_without_exec(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            words = container.command_line
            if not words or not SHELLS.fullmatch(words[0]):
                continue
            script = _script(words[1:])
            if not script_trains(script) or _EXEC.search(script) or _forwards(script):
                continue
            message = f"{words[0]} -c runs the training without exec"
            if training_is_followed(script):
                message = f"{words[0]} -c goes on after the training, and passes no SIGTERM on"
            yield Hit(container.pointer, message)


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
        where = on_spot(subject, template)
        if not where:
            continue
        ours = _CHECKPOINT_DIR in (name for c in template.trains for name in c.variables)
        if not (ours or (subject.job is None and saves(template))):
            yield Hit(f"{template.pointer}/spec", f"{where}, and nothing is saved")


def on_spot(subject: Subject, template: PodTemplate) -> str:
    """Why the pods are sure to run on spot nodes, or nothing."""
    if any(pool.spot for pool in subject.environment.pools.values()):
        pools = candidates(subject, template)
        if pools and all(pool.spot for pool in pools):
            return f'the pool "{pools[0].name}" is spot'
    selector = mapping(template.spec.get("nodeSelector"))
    labels = [f"{key}={value}" for key, value in _SPOT.items() if selector.get(key) == value]
    return f"the nodes are spot ({labels[0]})" if labels else ""


_DIR = f"env: [{{name: {_CHECKPOINT_DIR}, value: /v/c}}]"
_AT_V = "%s, volumeMounts: [{name: v, mountPath: /v}]"
_CLAIMED = ", volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"
_EMPTY = ", volumes: [{name: v, emptyDir: {}}]"


@warning(
    id="TW719",
    summary="Checkpoints of a job whose pods are replaced are not on an emptyDir.",
    effect="The volume goes away with the pod, and the retry starts from zero.",
    remedy="Put checkpoints on a claim.",
    spec=Pointer("/checkpoint/volume"),
    source="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
    per_pod=True,
    passes=pod(_AT_V % _DIR, _CLAIMED),
    fails=pod(_AT_V % _DIR, _EMPTY),
    near_misses=(
        pod(_AT_V % "env: [{name: HF_HOME, value: /v/hf}]", _EMPTY),
        pod(_AT_V % "command: [train, --resume_from_checkpoint=/v/c]", _EMPTY),
        pod(
            f"{_DIR}, volumeMounts: [{{name: v, mountPath: /v}}, {{name: c, mountPath: /v/c}}]",
            f"{_EMPTY[:-1]}, {{name: c, persistentVolumeClaim: {{claimName: c}}}}]",
        ),
        pod(_AT_V % "command: [train, --output_dir=/vault]", _EMPTY),
    ),
    variants=(
        pod(_AT_V % f"env: [{{name: {_CHECKPOINT_DIR}, value: /v}}]", _EMPTY),
        pod(_AT_V % "env: [{name: CKPT_PATH, value: /v/c/}]", _EMPTY),
        pod(_AT_V % "command: [torchrun, t.py, --output_dir, /v/out]", _EMPTY),
        pod(_AT_V % "command: [sh, -c, 'exec torchrun t.py --save-dir=/v']", _EMPTY),
    ),
)
def checkpoints_lost_with_pod(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if template.retried is not True:
            continue
        for container in template.trains:
            for folder in saved(container):
                mount = mount_at(container, folder.value)
                if mount is not None and "emptyDir" in volume_of(template, mount):
                    message = f"{folder.shown} saves to {folder.value}, an emptyDir"
                    yield Hit(folder.pointer, message)


_TWO = "replicas: 2, "
_LOOPBACK = re.compile(
    r"(?:\w+://)?(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1\]?)(?::\d*)?", re.IGNORECASE
)
_STANDALONE = re.compile(r"(?:^|\s)--standalone(?=\s|$)")


_STAGES = (
    "kind: JobSet\nspec: {replicatedJobs: [{name: data, template: {spec: {template: {spec: "
    "{containers: [{name: a, command: [./fetch]}]}}}}}, {name: node, template: {spec: {template: "
    "{spec: {containers: [{name: a, command: [torchrun, --rdzv-endpoint=localhost:1]}]}}}}}]}"
)


def _array(words: str) -> str:
    return (
        "kind: Job\nspec: {completionMode: Indexed, parallelism: 2, completions: 2, template: "
        f"{{spec: {{containers: [{{name: a, command: [{words}]}}]}}}}}}"
    )


def _alone(subject: Subject) -> Iterator[Hit]:
    """Containers of several pods that are told to meet where only one of them is."""
    ranks = [t for t in subject.templates if any(map(_starts_ranks, t.trains))]
    pods = sum(template.replicas for template in ranks)
    for container in (c for template in ranks for c in template.trains if pods > 1):
        line = " ".join(container.command_line)
        if "JOB_COMPLETION_INDEX" in line or not _is_rank(subject, container):
            continue  # each pod of an array has a work of its own
        if torchruns(container) and _STANDALONE.search(line):
            yield Hit(container.pointer, f"--standalone, and there are {pods} pods")
        for address in addresses(container):
            if _LOOPBACK.fullmatch(address):
                yield Hit(container.pointer, f"{pods} pods are to meet at {address}")


def _starts_ranks(container: Container) -> bool:
    return launches(container.command_line) or bool(addresses(container))


def _is_rank(subject: Subject, container: Container) -> bool:
    """Whether pods are ranks of one training: those of a Job are where they say so."""
    nodes = options(container).get("nnodes", "")
    return "template" not in subject.spec or nodes not in ("", "1")


@warning(
    id="TW721",
    summary="Ranks on several nodes neither meet nor talk through the loopback interface.",
    effect="Pods reach only themselves: the job hangs at its first collective, or each pod trains "
    "alone and writes the same checkpoints.",
    remedy="Name the pod's interface (eth0), or exclude loopback with ^lo; let ranks meet at the "
    "address of rank 0, which the target gives the launcher.",
    spec=Pointer("/env"),
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    passes=pod("env: [{name: NCCL_SOCKET_IFNAME, value: ^lo}]"),
    fails=pod("env: [{name: NCCL_SOCKET_IFNAME, value: lo}]"),
    near_misses=(
        pod("command: [torchrun, --standalone, t.py]", replica="replicas: 1, "),
        pod("command: [torchrun, --master-addr=localhost, t.py]", replica="replicas: 1, "),
        pod("command: [torchrun, --master-addr=localhost.example.com, t.py]", replica=_TWO),
        _array("torchrun, --standalone, t.py, --part=$(JOB_COMPLETION_INDEX)"),
        _STAGES,
    ),
    variants=(
        pod("command: [torchrun, --standalone, t.py]", replica=_TWO),
        pod("command: [torchrun, --master-addr=localhost, t.py]", replica=_TWO),
        pod("command: [torchrun, --master_addr, 127.0.0.1, t.py]", replica=_TWO),
        pod("command: [torchrun, '--rdzv-endpoint=localhost:29400', t.py]", replica=_TWO),
        pod("command: [sh, -c, 'exec torchrun --rdzv_endpoint [::1]:1 t.py']", replica=_TWO),
        pod("command: [t.py], env: [{name: MASTER_ADDR, value: localhost}]", replica=_TWO),
        _array("torchrun, --nnodes=2, '--rdzv-endpoint=localhost:0', t.py"),
    ),
)
def loopback_rendezvous(subject: Subject) -> Iterator[Hit]:
    yield from _alone(subject)
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
