"""The shortest spec that renders to the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainwright.equivalence import NormalForm
from trainwright.equivalence.comparison import values
from trainwright.kinds.target import Unsupported
from trainwright.model import Data

# The target is kept although one pod is the same training on all of them: it was chosen once.
_KEPT = frozenset({"apiVersion", "kind", "name", "target"})
Render = Callable[[Mapping[str, Data]], NormalForm | Unsupported]


def shorten(spec: Mapping[str, Data], render: Render) -> dict[str, Data]:
    """The spec without every key whose removal leaves the run as it is.

    Keys go from the last to the first, and whole mappings before what is in them, so that the
    same spec always gives the same result; again and again, until no key can go.
    """
    done = render(spec)
    assert isinstance(done, NormalForm), "only a spec that renders is shortened"
    wanted = values(done)
    shorter = dict(spec)
    before: dict[str, Data] | None = None
    while before != shorter:
        before = shorter
        for path in list(_paths(shorter)):
            without = _without(shorter, path)
            if without is not None:
                found = render(without)
                if isinstance(found, NormalForm) and values(found) == wanted:
                    shorter = without
    return shorter


def _paths(spec: Mapping[str, Data], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key in reversed(list(spec)):
        if not above and key in _KEPT:
            continue
        yield (*above, key)
        if isinstance(spec[key], Mapping):
            yield from _paths(spec[key], (*above, key))


def _without(spec: Mapping[str, Data], path: tuple[str, ...]) -> dict[str, Data] | None:
    """The spec without a key, and without what is empty for want of it; None when it has none."""
    key, *rest = path
    if key not in spec:
        return None
    others = {name: value for name, value in spec.items() if name != key}
    if not rest:
        return others
    inner = _without(spec[key], tuple(rest)) if isinstance(spec[key], Mapping) else None
    if inner is None:
        return None
    return {
        name: inner if name == key else value
        for name, value in spec.items()
        if name != key or inner
    }
