"""An edit of an object that is already there, and the type of the rules about such edits."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.rule_model.rule_file import Documented


class Verdict(enum.StrEnum):
    """The outcome of an edit, the worst first."""

    REJECTED = "rejected"  # the API server refuses the whole object, and the sync fails
    REFUSED_BELOW = "refused-below"  # accepted; what its controller makes of it is refused
    DELETED = "deleted"  # the object goes away, and what it runs with it
    MIXED = "mixed"  # accepted; some pods have the old version and some the new one
    IGNORED = "ignored"  # accepted; nothing that runs ever sees it
    UNTIL_ADMITTED = "until-admitted"  # accepted while its queue holds it back, refused later
    IN_PLACE = "in-place"  # accepted, and it does what it says


@dataclass(frozen=True)
class Edit:
    """An object before and after an edit; `after` is None if it is removed.

    `environment` says which versions are installed, if that is known. With `waits`, the object is
    assumed to be held back by its queue, and so to be suspended.
    """

    before: Manifest
    after: Manifest | None
    environment: Environment | None = None
    waits: bool = False

    @cached_property
    def old(self) -> Mapping[str, Data]:
        return self.before.spec

    @cached_property
    def new(self) -> Mapping[str, Data]:
        return self.after.spec if self.after else {}

    @cached_property
    def paths(self) -> tuple[Pointer, ...]:
        """Where the two differ, as deep as both have mappings or lists of the same length."""
        after = self.after.body if self.after else {}
        differing = _differences(self.before.body, after, Pointer())
        return tuple(path for path in differing if path and not _server_side(path))

    @cached_property
    def suspended(self) -> bool:
        """Whether the object is suspended before the edit, as far as git shows, so no pod runs."""
        return self.waits or _suspended(self.old)

    @cached_property
    def suspended_around(self) -> bool:
        """Whether the object is suspended before or after, as some fields need it."""
        return self.waits or _suspended(self.old) or _suspended(self.new)


def may_wait(manifest: Manifest) -> bool:
    """Return whether Kueue may hold an object back: it has a queue and does not set `suspend`.

    Kueue writes `suspend` itself, which is why a live object has it and one in git has not.
    """
    queued = mapping(manifest.metadata.get("labels")).get(QUEUE_LABEL)
    spec = manifest.spec
    return bool(queued) and "suspend" not in {**spec, **mapping(spec.get("runPolicy"))}


def _suspended(spec: Mapping[str, Data]) -> bool:
    return spec.get("suspend") is True or mapping(spec.get("runPolicy")).get("suspend") is True


def _server_side(path: Pointer) -> bool:
    """Whether only the API server writes the field at a path."""
    written = path == "/metadata" or any(map(path.within, _WRITTEN))
    return path.within("/status") or (path.within("/metadata") and not written)


_WRITTEN = ("/metadata/labels", "/metadata/annotations")


def _differences(old: Data, new: Data, at: Pointer) -> Iterator[Pointer]:
    """Yield where two values differ, as deep as both are mappings or lists of one length."""
    if _grew(old, new) or _grew(new, old) or (_is_map(old) and _is_map(new)):
        was, now = mapping(old), mapping(new)
        for key in (*was, *(key for key in now if key not in was)):
            yield from _differences(was.get(key), now.get(key), at / str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, at / index)
    elif old != new:
        yield at


def _is_map(value: Data) -> bool:
    return isinstance(value, dict)


def _grew(before: Data, after: Data) -> bool:
    """Whether a non-empty mapping has appeared where there was nothing."""
    return before is None and _is_map(after) and bool(after)


@dataclass(frozen=True, slots=True)
class EditSample:
    """A sample of an edit: an object before and after; `after` is None for its removal."""

    before: Data
    after: Data = None


@dataclass(frozen=True, slots=True)
class EditRule(Documented):
    """One outcome of an edit; the table of edits says for which fields.

    `removal` says why removing an object, with all of its run, has this outcome, or "" if it has
    not. The passing sample results in another verdict or none.
    """

    verdict: Verdict
    removal: Callable[[Manifest, Environment | None, Sequence[Manifest]], str] | None = None

    @property
    def failing(self) -> EditSample:
        return EditSample(**self.samples["fails"])

    @property
    def passing(self) -> EditSample:
        return EditSample(**self.samples["passes"])
