"""Variables that an operator sets in every container, so that a spec must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainwright.datatypes.data import text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.rule_model.rule import Rule, warning
from trainwright.rule_model.subject import Hit, Subject


def reserved_env(
    kinds: tuple[GroupKind, ...],
    names: frozenset[str],
    sets: Callable[[Subject], bool] = lambda _: True,
) -> Rule:
    """Return the rule for kinds whose operator sets these variables, where `sets` holds."""

    @warning("TW111", kinds=kinds, about=(*names, "PET_"), spec=Pointer("/env"), per_pod=True)
    def reserved_variable(subject: Subject) -> Iterator[Hit]:
        for container in subject.containers if sets(subject) else ():
            for index, entry in enumerate(container.env):
                name = text(entry.get("name"))
                if name in names or name.startswith("PET_"):
                    yield Hit(
                        f"{container.pointer}/env/{index}",
                        f"{name} is set",
                        spec=Pointer.of("env", name),
                    )

    return reserved_variable
