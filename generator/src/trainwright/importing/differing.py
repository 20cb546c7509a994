"""Differences in the run of a spec that no value of the input requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count, format_binary, parse
from trainwright.datatypes.same import Difference
from trainwright.importing import reasons
from trainwright.importing.equivalence import in_words, sentence
from trainwright.importing.equivalence.comparison import holders, in_every_pod
from trainwright.kinds.reading import Loss, table
from trainwright.kinds.target import in_group


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """One difference, and what it means for the run."""

    difference: Difference
    severity: Loss
    fails: str = ""  # the command that it takes the rights from

    def __str__(self) -> str:
        """Return a sentence with whose value it is, or the plain values if no sentence fits."""
        difference = self.difference
        path = in_group(difference.path)
        form = "changed"
        if None in (difference.before, difference.after):
            form = "added" if difference.before is None else "removed"
        fitting = (text for at, on, text in _TABLE["sentences"] if on == form and path.matches(at))
        words: str = next(fitting, "")
        if not words:
            return sentence(difference)
        if path.matches(_MEMORY):
            difference = difference._replace(
                before=_quantity(difference.before), after=_quantity(difference.after)
            )
        before, after = in_words(difference)
        fails = f", so that {self.fails} fails" if self.fails else ""
        whose = ", ".join(it for it in holders(difference.path) if it not in _ANY_POD)
        text = f"{words.format(before=before, after=after)}{fails}"
        return f"{text} ({whose})" if whose else text


_ANY_POD = ("every pod", "pod 0")  # all of them, or the one that is there


def _quantity(size: Data) -> Data:
    """Return bytes as a quantity, if that is the same number."""
    number = count(size)
    shown = "" if number is None else format_binary(number)
    return shown if shown and parse(shown) == number else size


_TABLE = table(__file__, "differences.yaml")
_DROPPED = "/pods/*/security/capabilities/drop/*"
_GRACE = "/pods/*/grace_period"
_RANK = "/pods/*/processes/*/rank"
_MEMORY = "/pods/*/resources/*/memory"
_TOLERATION = "/pods/*/placement/tolerations/*/*"
_DEVICE = "/pods/*/resources/*/*~1*"  # extended resources have a domain in their names


def devices_lost(differences: Iterable[Difference]) -> int:
    """Return how many requests for GPUs or other devices of a node are lost."""
    gone = (in_group(difference.path) for difference in differences if difference.after is None)
    return sum(path.matches(_DEVICE) for path in gone)


# What a command needs the capabilities of root for.
_AS_ROOT = re.compile(
    r"(?<![\w.-])(?:chown|chgrp|su|sudo|gosu|apt|apt-get|apk|dnf|yum|dpkg|rpm|mount|setcap|useradd|"
    r"adduser|chroot|ldconfig|update-ca-certificates)(?=\s)"
)


def reported(added: Iterable[Difference], command: str = "") -> Iterator[Differing]:
    """Yield the differences, except for what every rendered run has. `command` is what the training
    container starts, which may need what is taken from it.

    Ranks that are known now are one difference for all pods, although each pod has its own.
    """
    shown = [it for it in added if not any(map(in_group(it.path).matches, _TABLE["always"]))]
    for difference in _ranks_together(_tolerations_together(shown)):
        loses = in_group(difference.path).matches(_DROPPED) and _AS_ROOT.search(command)
        yield Differing(
            difference=difference,
            severity=Loss.BEHAVIOUR if loses else severity(difference),
            fails=loses[0] if loses else "",
        )


def _tolerations_together(differences: list[Difference]) -> list[Difference]:
    """Return the differences with each toleration that is added as one, as kubectl prints it."""
    added: dict[Pointer, dict[str, str]] = {}
    for path, before, after in differences:
        if before is None and in_group(path).matches(_TOLERATION):
            added.setdefault(path.parent, {})[path.last] = str(after)
    together: dict[Pointer, Difference] = {}
    for difference in differences:
        path = difference.path.parent if difference.path.parent in added else difference.path
        made = Difference(path, None, _tolerated(added[path])) if path in added else difference
        together.setdefault(path, made)
    return list(together.values())


def _tolerated(toleration: dict[str, str]) -> str:
    """Return a toleration as `kubectl describe` prints it: sku=gpu:NoSchedule."""
    value = f"={toleration['value']}" if "value" in toleration else ""
    effect = f":{toleration['effect']}" if "effect" in toleration else ""
    return f"{toleration.get('key', 'every taint')}{value}{effect}"


def _ranks_together(differences: list[Difference]) -> Iterator[Difference]:
    """Yield the differences, those of the ranks of equal processes as one."""
    ranks: dict[Pointer, list[int]] = {}
    for difference in differences:
        if in_group(difference.path).matches(_RANK) and difference.before is None:
            ranks.setdefault(in_every_pod(difference.path), []).append(int(difference.after))
    together = {path: numbers for path, numbers in ranks.items() if len(numbers) > 1}
    for difference in differences:
        path = in_every_pod(difference.path)
        if path not in together:
            yield difference
        elif numbers := together[path]:
            yield Difference(path, None, f"{min(numbers)} to {max(numbers)}")
            together[path] = []


def severity(difference: Difference) -> Loss:
    """Return what it means for the run: what the run needs may be added, not changed or lost."""
    if _is_harmless(difference):
        return Loss.COSMETIC
    needed = reasons.NEEDED.match(in_group(difference.path).replace("/pods/*/", "/pods/0/", 1))
    return Loss.CANNOT_RUN if needed and difference.before is not None else Loss.BEHAVIOUR


def _is_harmless(difference: Difference) -> bool:
    path, before, after = in_group(difference.path), difference.before, difference.after
    if path.matches(_GRACE):  # more time to save before it ends, of a pod that both runs have
        return isinstance(before, int) and isinstance(after, int) and after > before
    if any(map(path.matches, _TABLE["rights"])):
        return not after
    return before is None and any(map(path.matches, _TABLE["harmless"]))
