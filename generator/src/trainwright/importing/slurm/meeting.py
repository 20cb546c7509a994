"""How many nodes a torchrun starts on, and where they meet, by the options of its command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.importing.slurm.amounts import HEAD, PORT, RANK, NodeAmounts
from trainwright.kinds.reading import Loss, NotImported, shown
from trainwright.objects.pods import command
from trainwright.objects.pods.launchers import plain
from trainwright.objects.pods.launching import node_range

_MODULE = "torch.distributed.run"
# Backends whose endpoint is one of the nodes; that of etcd is a server of its own.
_OF_NODES = ("", "static", "c10d")
_ADDRESSES = ("master-addr", "rdzv-endpoint")
_DECIDED = frozenset({"nnodes", "node-rank", "master-port", *_ADDRESSES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A command line as each pod has it, with the amounts that follow from it.

    `elastic` are the fewest and the most nodes, where these differ.
    """

    words: tuple[str, ...]
    amounts: NodeAmounts
    elastic: tuple[int, int] | None = None
    left: tuple[NotImported, ...] = ()


def meeting(
    words: tuple[str, ...], amounts: NodeAmounts, place: Location, *, in_slurm: bool
) -> Meeting:
    """Return a command line whose nodes meet at the first pod.

    What does not start torchrun, or is one node among several, stays as it is.
    """
    parsed, unchanged = command.parse(words), Meeting(words=words, amounts=amounts)
    given, written = parsed.options, parsed.options.get("nnodes", "1")
    sizes = node_range(written)
    is_torchrun = parsed.launcher == "torchrun" and parsed.program is not None
    if not is_torchrun or sizes is None or given.get("rdzv-backend", "") not in _OF_NODES:
        return unchanged
    fewest, most = sizes
    is_one_of_several = most > 1 and given.get("node-rank", RANK) != RANK
    if is_one_of_several or "standalone" in given or (in_slurm and most != amounts.nodes):
        return unchanged
    left = tuple(_left(given, most, place))
    if fewest == most and written.isdecimal() and not left:
        return unchanged
    amounts = replace(amounts, nodes=most)
    if fewest < most:
        bare = _with(words, parsed.program, {*_DECIDED, "rdzv-backend", "rdzv-id"}, ())
        return Meeting(words=bare, amounts=amounts, elastic=sizes, left=left)
    own = tuple(_options(given, most)) if most > 1 else ()
    return Meeting(words=_with(words, parsed.program, _DECIDED, own), amounts=amounts, left=left)


def _left(given: Mapping[str, str], nodes: int, place: Location) -> Iterator[NotImported]:
    """Yield the addresses of other machines, or that several nodes have none."""
    addresses = [(name, given[name]) for name in _ADDRESSES if name in given]
    for name, address in addresses:
        if not address.startswith((HEAD, *(_LOCAL if nodes == 1 else ()))):
            why = "the target gives the address at which the nodes meet"
            yield NotImported(f"--{name}", place, shown("", address), why, Loss.COSMETIC)
    if nodes > 1 and not addresses:
        why = "no option has the address at which the nodes meet: the target gives it"
        yield NotImported("--nnodes", place, given["nnodes"], why, Loss.COSMETIC)


_LOCAL = ("localhost", "127.", "0.0.0.0", "[::1]")  # noqa: S104


def _options(given: Mapping[str, str], nodes: int) -> Iterator[str]:
    yield f"--nnodes={nodes}"
    if given.get("rdzv-backend") == "c10d":
        yield f"--rdzv-endpoint={HEAD}:{PORT}"
    else:
        yield from (f"--node-rank={RANK}", f"--master-addr={HEAD}", f"--master-port={PORT}")


def _with(
    words: tuple[str, ...],
    program: int | None,
    without: set[str] | frozenset[str],
    own: tuple[str, ...],
) -> tuple[str, ...]:
    """Return a command line without the launcher's options of some names, and with others."""
    kept: list[str] = []
    before, at = words[:program], 0
    while at < len(before):
        word = before[at]
        name, equals, _ = word.partition("=")
        if word.startswith("--") and plain(name[2:]) in without:
            at += 1 if equals else 2
            continue
        kept.append(word)
        if command.is_torchrun(word) or word == _MODULE:
            kept += own
        at += 1
    return (*kept, *words[len(before) :])
