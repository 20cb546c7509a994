"""What the rendered run would lack although all values of the input were carried over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from trainwright.datatypes import quantity
from trainwright.datatypes.data import is_accelerator, mapping
from trainwright.importing.equivalence.form import NormalForm, Pod
from trainwright.importing.source import Source
from trainwright.kinds.reading import Loss, NotImported
from trainwright.objects.pods.command import RUNTIME
from trainwright.objects.pods.launching import SHELLS, node_range
from trainwright.objects.pods.launching import options as options_of
from trainwright.objects.pods.template import Container


def missing(
    source: Source, run: NormalForm, rendered: NormalForm, target: str
) -> Iterator[NotImported]:
    """Yield other nodes, the runtime in the image, what people would type into a shell, and the
    rights of root.
    """
    yield from _range(source, run, rendered, target)
    yield from _nodes(source, run)
    yield from _runtime(source, rendered, target)
    yield from _input(source)
    yield from _root(source, rendered)


def _range(
    source: Source, run: NormalForm, rendered: NormalForm, target: str
) -> Iterator[NotImported]:
    """Yield the loss of an elastic range of nodes that a command line has."""
    given = run.elastic if source.is_made else None
    if given is None and run.elastic is None:
        options = options_of(Container("", {"command": source.pod().argv}))
        given = node_range(options.get("nnodes", ""))
    if given and given[0] < given[1] and not rendered.elastic:
        why = (
            f"an elastic run, which a {target} is not: write nodes, or import it into an "
            "environment with the target pytorchjob or trainingjob"
        )
        written = f"{given[0]}:{given[1]}"
        yield NotImported("--nnodes", source.place, written, why, Loss.CANNOT_RUN)


def _nodes(source: Source, run: NormalForm) -> Iterator[NotImported]:
    """Yield the loss of the nodes that are started elsewhere, by other command lines or objects.

    A line of `docker run … torchrun --nnodes=2 --node_rank=0` is one node of two: alone it waits
    for the other until its rendezvous times out. A program without a launcher may itself start as
    many processes as it has accelerators.
    """
    if run.nodes != 1 or run.elastic:
        return
    pod, processes = run.pods[0], run.pods[0].processes
    started = len(processes)
    expected = max((process.world_size or 0 for process in processes), default=0)
    nodes = _nodes_of_old_launcher(source)
    if nodes > 1 or (
        started < expected and not (pod.program.launcher == "none" and _fit(pod, expected))
    ):
        expected = max(expected, nodes)
        why = (
            f"its launcher waits for {expected} processes, and what is imported starts {started}: "
            "write nodes, procsPerNode and launcher in the spec, and leave the number of nodes, "
            "the rank of the node and the address of the first to the target"
        )
        yield NotImported("world size", source.place, str(expected), why, Loss.CANNOT_RUN)


def _nodes_of_old_launcher(source: Source) -> int:
    """Return the nodes that torch.distributed.launch waits for; 0 for any other launcher."""
    words = " ".join(source.pod().command)
    nodes = _NNODES.search(words) if "torch.distributed.launch" in words else None
    return int(nodes[1]) if nodes else 0


_NNODES = re.compile(r"--nnodes[= ]+[\"']?(\d+)(?=\s|[\"']|$)")


def _fit(pod: Pod, processes: int) -> bool:
    """Whether a pod has an accelerator for each of the processes."""
    limits = pod.resources.get("limits", {}).items()
    return processes <= sum(quantity.count(n) or 0 for name, n in limits if is_accelerator(name))


_STARTED_BY_RUNTIME = ("trainwright", "ray")  # launchers


def _runtime(source: Source, rendered: NormalForm, target: str) -> Iterator[NotImported]:
    """Yield the loss of what started the program, if the rendered pods need the runtime for it.

    KubeRay starts Ray on its nodes; pods of other kinds do it themselves.
    """
    module, pod = RUNTIME[-1], rendered.pods[0]
    needed = pod.program.launcher in _STARTED_BY_RUNTIME and source.target != target
    if needed and not any(module in json.dumps(part.body) for part in source.parts):
        why = (
            f"in a {target} the package {module} starts Ray: install it into the image, or import "
            f"it into an environment with the target {source.target}"
        )
        yield NotImported("image", source.place, pod.image, why, Loss.CANNOT_RUN)


_SHELL_OPTIONS = frozenset({"-l", "-i", "-li", "-il", "--login", "-x", "-e"})  # without a command


def _input(source: Source) -> Iterator[NotImported]:
    """Yield the loss of what people would type: `docker run -it IMAGE bash` starts no training."""
    words = source.pod().argv
    if words and SHELLS.fullmatch(words[0]) and _SHELL_OPTIONS.issuperset(words[1:]):
        why = "a shell without input ends at once: write what is typed there in its place"
        yield NotImported("command", source.place, " ".join(words), why, Loss.CANNOT_RUN)


def _root(source: Source, rendered: NormalForm) -> Iterator[NotImported]:
    """Yield the loss of a container that starts as root where its pod may not run any as root."""
    pod = rendered.pods[0]
    containers = {"the training": pod.security}
    containers |= {f"init container {i}": mapping(it["security"]) for i, it in enumerate(pod.init)}
    containers |= {name: mapping(mapping(it)["security"]) for name, it in pod.sidecars.items()}
    for name, security in containers.items():
        if security.get("nonRoot") and security.get("runAsUser") == 0:
            why = (
                f"{name} is refused: podSecurity of the environment lets no container run as root. "
                "Remove what needs root, such as chown, for which a volume has fsGroup"
            )
            yield NotImported("runAsUser", source.place, "0", why, Loss.CANNOT_RUN)
