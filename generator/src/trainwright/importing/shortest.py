"""The shortest spec that renders to the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.pointer import Pointer, lookup, without_value
from trainwright.importing.equivalence.comparison import is_same_run
from trainwright.importing.equivalence.form import NormalForm
from trainwright.kinds.target import Unsupported

# The target is kept although one pod is the same training on all of them: it was chosen once.
_KEPT = frozenset({"apiVersion", "kind", "name", "target"})
# Mappings by names that people choose. Each entry is rendered, so that it can only go where a lower
# layer has the same one.
_BY_NAME = frozenset(
    "annotations env files flags initContainers labels launcherOptions nodeSelector podAnnotations "
    "podLabels secrets sidecars volumes".split()
)
# Often what the API server, the launcher or the target decides anyway.
_OFTEN_DECIDED = frozenset({"/image/pullPolicy", "/launcher", "/procsPerNode", "/shm"})
# Launcher options that follow from other options, or from resources. The effect of most of the
# others does not show in the normal form.
_FOLLOWS = frozenset(
    Pointer.of("launcherOptions", name) for name in ("rdzv-endpoint", "rdzv-id", "num-cpus")
)
Render = Callable[[Mapping[str, Data]], NormalForm | Unsupported]


def shorten(
    spec: Mapping[str, Data], inherited: Mapping[str, Data], render: Render
) -> dict[str, Data]:
    """Return the spec without all keys whose removal leaves the run unchanged.

    `inherited` are the values it has anyway. Keys that are likely to be superfluous are removed all
    at once, or in ever smaller halves until that works; all others are tried one by one, and once
    more only after another key was removed. The same spec always gives the same result.
    """
    done = render(spec)
    assert isinstance(done, NormalForm), "only a spec that renders is shortened"

    def is_same(shorter: Mapping[str, Data]) -> bool:
        rendered = render(shorter)
        return isinstance(rendered, NormalForm) and is_same_run(rendered, done)

    paths = list(_paths(spec, inherited))
    likely = [
        path
        for path in paths
        if path in _OFTEN_DECIDED or lookup(spec, path) == lookup(inherited, path)
    ]
    shorter = _halved(dict(spec), likely, is_same)
    tried: list[Pointer] = []
    waiting = [path for path in paths if path not in likely] + likely
    while waiting:
        path = waiting.pop(0)
        without = without_value(shorter, path, prune=True)
        if without == shorter:
            continue  # what held it has gone
        if is_same(without):
            shorter, waiting, tried = without, [*waiting, *tried], []
        else:
            tried.append(path)
    return shorter


def _halved(
    spec: dict[str, Data],
    paths: Sequence[Pointer],
    is_same: Callable[[Mapping[str, Data]], bool],
) -> dict[str, Data]:
    """Return the spec without as many of the keys as can go, tried together first."""
    shorter = spec
    for path in paths:
        shorter = without_value(shorter, path, prune=True)
    if shorter == spec or is_same(shorter):
        return shorter
    if len(paths) == 1:
        return spec
    middle = len(paths) // 2
    return _halved(_halved(spec, paths[:middle], is_same), paths[middle:], is_same)


def _paths(spec: Mapping[str, Data], inherited: Mapping[str, Data]) -> Iterator[Pointer]:
    """Yield each key that could go, from last to first, mappings before their contents."""
    for key in reversed(list(spec)):
        if key not in _KEPT:
            yield from _inside(Pointer.of(key), spec[key], mapping(inherited.get(key)))


def _inside(path: Pointer, value: Data, under: Mapping[str, Data]) -> Iterator[Pointer]:
    keys = [*reversed(value)] if isinstance(value, Mapping) else []
    if path.parts[0] not in _BY_NAME:
        yield path
        for key in keys:
            yield from _inside(path / key, value[key], mapping(under.get(key)))
        return
    could = [key for key in keys if key in under or not value[key] or path / key in _FOLLOWS]
    if len(could) == len(keys):
        yield path
    yield from (path / key for key in could)
