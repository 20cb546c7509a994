"""What a pod needs so that a run survives its own end, its node's end and its neighbours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from trainwright.datatypes.data import dig, mapping, mappings, sequence, text
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.objects.pods.launching import (
    SHELLS,
    addresses,
    failure_is_lost,
    is_loopback,
    launches,
    options,
    script_trains,
    torchruns,
    training_is_followed,
)
from trainwright.objects.pods.storage import (
    SAVING,
    arguments,
    mount_at,
    saved,
    saves,
    settings,
    variables,
    volume_of,
)
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.quota import candidates
from trainwright.rules.serving import serves_model


@warning("TW711", spec=Pointer("/gracePeriod"), per_pod=True)
def short_grace_period(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        grace = count(template.spec.get("terminationGracePeriodSeconds"))
        if grace is None and template.partial:
            continue
        if (30 if grace is None else grace) <= 30 and saves(template):
            seconds = "30 (the default)" if grace is None else str(grace)
            message = f"checkpoints are saved, but there are {seconds} seconds to stop"
            yield Hit(f"{template.pointer}/spec", message)


_EXEC = re.compile(r"(?:^|[;&|\s])exec\s")
_TRAP = re.compile(r"(?:^|[;&|\n])[ \t]*+trap\s")
_WAIT = re.compile(r"\bwait\b")


def _forwards(script: str) -> bool:
    """Whether a script traps signals to pass them on, and then waits for what it started."""
    trap = _TRAP.search(script)
    return bool(trap and _WAIT.search(script, trap.end()))


@warning("TW712", spec=Pointer("/entrypoint"), per_pod=True)
def shell_without_exec(subject: Subject) -> Iterator[Hit]:
    for container, shell, script in _scripts(subject):
        if not script_trains(script) or _EXEC.search(script) or _forwards(script):
            continue
        message = f"{shell} runs the training without exec"
        if training_is_followed(script):
            message = f"{shell} goes on after the training, and passes no SIGTERM on"
        yield Hit(container.pointer, message)


@warning("TW771", spec=Pointer("/entrypoint"), per_pod=True)
def failure_is_hidden(subject: Subject) -> Iterator[Hit]:
    for container, _, script in _scripts(subject):
        words = container.command_line[1:3]
        errexit = any(re.fullmatch("-[a-df-z]*e[a-z]*", word) for word in words)
        if hidden := failure_is_lost(f"set -e\n{script}" if errexit else script):
            yield Hit(container.pointer, f"the training's failure is lost by {hidden}")


def _scripts(subject: Subject) -> Iterator[tuple[Container, str, str]]:
    """Yield each container that starts a shell with a script, how it starts it, and the script."""
    for _, container in subject.training:
        shell, script = _script(container)
        if script:
            yield container, shell, script


def _script(container: Container) -> tuple[str, str]:
    """Return how a container starts a shell, and the text or known script that the shell runs."""
    words = container.command_line
    if not words or not SHELLS.fullmatch(words[0]):
        return "", ""
    flags = [i for i, word in enumerate(words[1:3], start=1) if re.fullmatch("-[a-z]*c", word)]
    if flags:
        after = [word for word in words[flags[0] + 1 :] if word != "--"]
        return f"{words[0]} -c", after[0] if after else ""
    path = next((word for word in words[1:] if not word.startswith("-")), "")
    return f"{words[0]} {path}", container.files.get(path, "")


REPEATED_NAME = "TW713"


@error(REPEATED_NAME, spec=Pointer("/volumes"), per_pod=True, special=True)
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
            if len({text(entry.get("name")) for entry in container.env}) < len(container.env):
                env = [(f"{at}/env/{i}", text(e.get("name"))) for i, e in enumerate(container.env)]
                yield from _repeated(env, "the variable", Pointer("/env"))
            paths = [text(mount.get("mountPath")).rstrip("/") or "/" for mount in container.mounts]
            if len({*paths}) < len(paths):
                mounts = [(f"{at}/volumeMounts/{i}", path) for i, path in enumerate(paths)]
                yield from _repeated(mounts, "the mount path", Pointer("/volumes"))


def _repeated(pairs: Sequence[tuple[str, str]], what: str, spec: Pointer) -> Iterator[Hit]:
    """Yield a hit for each name that occurs more than once, at its first occurrence."""
    if len({name for _, name in pairs}) == len(pairs):
        return
    for name, times in Counter(name for _, name in pairs).items():
        if times > 1:
            pointer = next(pointer for pointer, other in pairs if other == name)
            yield Hit(pointer, f"{what} {name!r} is there {times} times", spec)


# Devices, kernel information, sockets and drivers, which are meant to differ from node to node.
_OF_THE_NODE = re.compile(r"/(dev|proc|sys|run|var/run|home/kubernetes/bin)(/|$)")


@warning("TW717", about=("hostPath",), spec=Pointer("/volumes"))
def host_path_on_several_nodes(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for pointer, volume in template.volumes:
            if "hostPath" in volume and not _OF_THE_NODE.match(
                text(dig(volume, "hostPath", "path"))
            ):
                name, pods = text(volume.get("name")), subject.pods_with(volume)
                message = f"{name} is a hostPath: {pods} pods see the disks of different nodes"
                if pods > 1:
                    yield Hit(f"{pointer}/hostPath", message, spec=Pointer.of("volumes", name))


# How the nodes that may be taken away are labelled by those who rent them out.
_SPOT = {
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "cloud.google.com/gke-provisioning": "spot",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "karpenter.sh/capacity-type": "spot",
    "oci.oraclecloud.com/oke-is-preemptible": "true",
    "node.kubernetes.io/lifecycle": "spot",
}


@warning("TW718", spec=Pointer("/pool"), per_pod=True)
def spot_without_checkpoints(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        where = on_spot(subject, template)
        if not where or template.serves or serves_model(subject.kind, template):
            continue
        if not saves(template):  # by which `plan` goes as well
            yield Hit(f"{template.pointer}/spec", f"{where}, and nothing is saved")


def on_spot(subject: Subject, template: PodTemplate) -> str:
    """Return why the pods are on spot nodes or may be preempted, or "" if nothing says so."""
    if any(pool.spot for pool in subject.environment.pools.values()):
        pools = candidates(subject, template)
        if pools and all(pool.spot for pool in pools):
            return f'the pool "{pools[0].name}" is spot'
    selector = {**mapping(template.spec.get("nodeSelector")), **_required(template)}
    spot = _SPOT.items() if selector else ()
    labels = [f"{key}={value}" for key, value in spot if selector.get(key) == value]
    if labels:
        return f"the nodes are spot ({labels[0]})"
    priority = text(template.spec.get("priorityClassName"))
    return f"the pods may be preempted ({priority})" if _PREEMPTED.search(priority) else ""


_PREEMPTED = re.compile(r"^(?!non)(?:.{0,60}-)?(?:preempt[ai]ble|spot|interruptible)(?:-|$)")


def _required(template: PodTemplate) -> dict[str, str]:
    """Return the node labels that an affinity requires with a single value, and no alternative."""
    if "affinity" not in template.spec:
        return {}
    at = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = mappings(dig(template.spec, *at, "nodeSelectorTerms"))
    return {
        text(expression.get("key")): text(expression["values"][0])
        for term in (terms if len(terms) == 1 else ())
        for expression in mappings(term.get("matchExpressions"))
        if expression.get("operator") == "In" and len(sequence(expression.get("values"))) == 1
    }


@warning("TW719", about=SAVING, spec=Pointer("/checkpoint/volume"), per_pod=True)
def checkpoints_lost_with_pod(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if template.retried is not True or template.serves:
            continue
        for container in template.trains:
            for folder in saved(container):
                mount = mount_at(container, folder.value)
                if mount is not None and "emptyDir" in volume_of(template, mount):
                    message = f"{folder.shown} saves to {folder.value}, an emptyDir"
                    yield Hit(folder.pointer, message)


_STARTED = Pointer("/entrypoint")
_STANDALONE = re.compile(r"(?:^|\s)--standalone(?=\s|$)")


def _alone(subject: Subject) -> Iterator[Hit]:
    """Yield a hit where the ranks of several pods are to meet inside a single one: by --standalone
    or at a loopback address.
    """
    ranks = [t for t in subject.templates if any(map(_starts_ranks, t.trains))]
    pods = sum(template.ranks for template in ranks)
    for container in (c for template in ranks for c in template.trains if pods > 1):
        if not _is_rank(subject, container):
            continue  # each pod of an array has a work of its own
        line = " ".join(container.started)
        if torchruns(container) and _STANDALONE.search(line):
            message = f"--standalone, and there are {pods} pods"
            yield Hit(container.pointer, message, _STARTED, form="alone")
        for address in _meeting(container):
            if is_loopback(_expanded(container, address)):
                named = (name for name, value in container.variables.items() if value == address)
                spec = Pointer.of("env", name) if (name := next(named, "")) else _STARTED
                message = f"{pods} pods are to meet at {address}"
                yield Hit(container.pointer, message, spec, form="loopback")


# Options and variables that say where ranks meet, to a program or to a launcher.
_MEETING = re.compile(r"(?:^|_)(?:dist_url|init_method|master_addr(?:ess)?)$")


def _meeting(container: Container) -> tuple[str, ...]:
    """Return the addresses at which ranks meet, by options and variables of a container."""
    named = (s.value for s in settings(container) if _MEETING.search(s.name) and s.value)
    return tuple(dict.fromkeys((*addresses(container), *named)))


_HOST = re.compile(r"\$\{?([A-Za-z_]\w*)\}?(:.*)?")


def _expanded(container: Container, address: str) -> str:
    """An address whose host a script has in a variable, as far as the script sets it."""
    match = _HOST.fullmatch(address)
    values = [s.value for s in arguments(container) if match and s.shown == match[1]]
    return f"{values[-1]}{match[2] or ''}" if match and values else address


def _starts_ranks(container: Container) -> bool:
    return launches(container.started) or bool(_meeting(container))


# By what a pod of many knows which of them it is, and takes its own work.
_INDEX = re.compile(r"JOB_COMPLETION_INDEX|HOSTNAME|POD_NAME|POD_INDEX|\bhostname\b")


def _is_rank(subject: Subject, container: Container) -> bool:
    """Whether the pods are ranks of one training; those of a Job are only if started with --nnodes
    other than 1.
    """
    line = " ".join(container.started)
    if options(container).get("nnodes", "") not in ("", "1"):
        return "JOB_COMPLETION_INDEX" not in line or not _STANDALONE.search(line)
    if "template" not in subject.spec:
        return "JOB_COMPLETION_INDEX" not in line
    named = _INDEX.search(" ".join((line, *container.variables)))
    return subject.kind.kind == "StatefulSet" and named is None


_ALONE = ("--standalone", "localhost", "127.", "0.0.0.0", "::1", "SOCKET_IFNAME")  # noqa: S104


@warning("TW721", about=_ALONE, spec=Pointer("/env"))
def loopback_rendezvous(subject: Subject) -> Iterator[Hit]:
    yield from _alone(subject)
    for container in subject.containers:
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            setting = variables(container).get(name)
            if setting and "lo" in setting.value.removeprefix("=").split(","):
                spec = Pointer.of("env", name)
                yield Hit(setting.pointer, f"{name} is lo", spec, form="loopback")


RULES = defined_in(globals())
