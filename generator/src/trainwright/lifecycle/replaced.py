"""Runs that another run has replaced in git, and that no GitOps engine ends."""

from __future__ import annotations

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.kinds import NAMED
from trainwright.objects.departure import ended
from trainwright.runs import identity
from trainwright.runs.adopted import Adopted
from trainwright.runs.record import ENDED, Record
from trainwright.runs.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Replaced:
    """A run that may train on beside the one that replaced it, and the command that ends it."""

    object: str
    command: str


def by_run_of(workspace: Workspace, file: JobFile) -> Replaced | None:
    """Return the run that a job's present one replaced, where its engine left it in the cluster;
    None if there is none, or it has finished, by the ledger. Git does not know when it is deleted.
    """
    record, environment = workspace.record(file), None
    if record is not None and record.replaces and record.state not in ENDED:
        environment = workspace.sound(file.environment)
    if record is None or environment is None or not NAMED[record.target].is_served:
        return None
    over = record.replaces in workspace.ledger(file.environment).runs
    kind, objects = _objects(workspace, file, record)
    place = (kind, record.environment["namespace"], record.replaces)
    end = ended(place, {}, environment, objects)
    return Replaced(record.replaces, end.command) if end.is_kept and not over else None


def _objects(
    workspace: Workspace, file: JobFile, record: Record
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the kind of a replaced run, and its objects: those of the present run, by its name."""
    adopted = workspace.adopted(file)
    if isinstance(adopted, Adopted) and adopted.name == record.replaces:
        return adopted.manifest.kind, ()
    objects = record.objects_by_kind
    if not identity.is_of(file.name, record.replaces):
        objects = ()
    names = ((kind, name.replace(record.object, record.replaces)) for kind, name in objects)
    return NAMED[record.target].kind, tuple(names)
