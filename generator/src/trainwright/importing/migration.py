"""Migration of job specs to another target, with what changes for the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.documents import editing
from trainwright.documents.editing import EditError
from trainwright.importing import equivalence
from trainwright.importing.equivalence import NormalForm
from trainwright.importing.trial import ImportContext
from trainwright.kinds import TARGETS
from trainwright.kinds.reading import ImportingError
from trainwright.kinds.target import Target, Unsupported
from trainwright.objects.pods.pod import ManifestError


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A job file before and after. `changes` are what becomes different for the training, in words.

    `refused` is why there is no after.
    """

    file: JobFile
    before: bytes
    after: bytes
    changes: tuple[str, ...] = ()
    refused: str = ""


def successors() -> dict[str, Target]:
    """Return the target to which the jobs of each kind can be moved."""
    return {kind: target for target in TARGETS.values() for kind in target.succeeds}


def migrate(place: ImportContext, file: JobFile, to: str) -> Migration | None:
    """Return the job on the target `to`; None if `to` is not the successor of the job's own target.

    Raise ImportingError if the environment does not have the successor.
    """
    before = place.tree.read(file.path)
    try:
        return _migrated(place, file, before, to)
    except (SourceError, EditError, ManifestError) as error:
        return _refused(file, before, str(error), "")


def elsewhere(place: ImportContext, file: JobFile, to: str) -> Migration | None:
    """Return the refusal of a job that does not move to the target `to`; None if it is there."""
    before = place.tree.read(file.path)
    try:
        old = TARGETS[place.written(file, before).data["target"]]
    except SourceError as error:
        return _refused(file, before, str(error), "")
    if old.name == to:
        return None
    new = successors().get(old.kind)
    moves = f"move to {new.name}, and not to {to}" if new else "move to no other target"
    return _refused(file, before, f"jobs of target {old.name} {moves}", "")


def _migrated(place: ImportContext, file: JobFile, before: bytes, to: str) -> Migration | None:
    spec = place.written(file, before)
    old = TARGETS[spec.data["target"]]
    new = successors().get(old.kind)
    if new is None or new.name != to:
        return None
    _require(place, new)
    size = _only_size(spec.data) if not new.elastic else None
    fixed = before if size is None else _fixed(file, before, size)
    after = editing.put(file.path, fixed, "/target", new.name)
    if size is not None:
        spec = place.written(file, fixed)
    was, will = place.rendered(file, spec), place.rendered(file, place.written(file, after))
    if isinstance(was, Unsupported):
        return _refused(file, before, f"it does not render as it is: {was.message}", was.remedy)
    if isinstance(will, Unsupported):
        return _refused(file, before, f"{new.name}: {will.message}", will.remedy)
    unforeseen = tuple(_unforeseen(was, will, (old, new)))
    if unforeseen:
        return _refused(file, before, "the training would not be the same", "; ".join(unforeseen))
    changes = tuple(_changes(was, will, (old, new)))
    if size is not None:
        changes = (f"elastic ({old.name}): its range is one size, {size} nodes.", *changes)
    return Migration(file=file, before=before, after=after, changes=changes)


def _only_size(spec: Data) -> int | None:
    """Return the nodes of an elastic job of one size without live recovery; None for any other."""
    elastic = spec.get("elastic")
    if not isinstance(elastic, Mapping) or elastic.get("recovery") == "live":
        return None
    fewest, most = elastic.get("minNodes"), elastic.get("maxNodes")
    return fewest if isinstance(fewest, int) and fewest == most else None


def _fixed(file: JobFile, raw: bytes, size: int) -> bytes:
    """Return the spec with a number of nodes in place of its range, which may be inherited."""
    without = editing.drop(file.path, raw, "/elastic")
    return editing.put(file.path, without, "/nodes", size)


def _require(place: ImportContext, target: Target) -> None:
    if target.name not in place.environment.targets:
        raise ImportingError(
            f"{target.name} is not installed in {place.name}: add it to targets in "
            f"environments/{place.name}/environment.yaml, with its version"
        )


def _refused(file: JobFile, before: bytes, why: str, remedy: str) -> Migration:
    message = f"{why}. {remedy}" if remedy else why
    return Migration(file=file, before=before, after=before, refused=message)


def _unforeseen(was: NormalForm, will: NormalForm, targets: tuple[Target, Target]) -> Iterator[str]:
    declared = [d for target in targets for d in target.deviations]
    for difference in equivalence.differences(was, will):
        if not any(deviation.covers(difference.path) for deviation in declared):
            yield equivalence.sentence(difference)


def _changes(was: NormalForm, will: NormalForm, targets: tuple[Target, Target]) -> Iterator[str]:
    """Yield what the targets say about those values that differ for this job."""
    paths = [difference.path for difference in equivalence.differences(was, will)]
    for target in targets:
        for deviation in target.deviations:
            if any(map(deviation.covers, paths)):
                yield f"{deviation.about} ({target.name}): {deviation.text}"
