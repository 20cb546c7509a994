"""Objects that two jobs of an environment, or two environments, would both make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from trainwright.datatypes.environment import Destination, Environment
from trainwright.datatypes.finding import Finding, Location, Related
from trainwright.datatypes.layout import WIRING, JobFile
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx
from trainwright.runs.record import Record
from trainwright.specs.load import LoadedEnvironment, Reader


def find(environment: str, runs: Mapping[str, Record], reader: Reader) -> Iterator[Finding]:
    """Yield a finding per job and object that another job of the environment renders, too."""
    makers: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for job, run in sorted(runs.items()):
        for name in dict.fromkeys(run.objects):
            makers[run.environment.get("namespace", ""), name].append(job)
    for (_, name), jobs in sorted(makers.items()):
        for job in jobs if len(jobs) > 1 else ():
            others = tuple(other for other in jobs if other != job)
            yield dx.OBJECT_COLLISION.at(
                _place(JobFile(environment, job), name, reader),
                f"{_title(name)} is rendered by {' and '.join(others)}, too",
                subject=f"{environment}/{job}",
                related=tuple(
                    Related("also", other, _place(JobFile(environment, other), name, reader))
                    for other in others
                ),
            )


Objects = frozenset[tuple[str, str]]  # namespace, in which its run began, and identity


def objects(runs: Mapping[str, Record]) -> Objects:
    """All that is rendered for the runs of an environment."""
    return frozenset(
        (run.environment.get("namespace", ""), name)
        for run in runs.values()
        if run.files
        for name in run.objects
    )


def across(
    loaded: LoadedEnvironment,
    one: Environment,
    other: Environment,
    rendered: tuple[Objects, Objects],
) -> Iterator[Finding]:
    """A finding, at the first of two environments, where both render the same objects into one
    namespace.
    """
    same = sorted(rendered[0] & rendered[1])
    if same and loaded.document is not None:
        namespaces = " and ".join(sorted({namespace for namespace, _ in same}))
        names = dict.fromkeys(name.rpartition("/")[2] for _, name in same)
        yield dx.SHARED_OBJECT.at(
            loaded.document.place("/namespace"),
            f"{other.name} renders the same objects into {namespaces}: {listed([*names])}",
            subject=one.name,
            path=Pointer("/namespace"),
            related=(Related("also", f"environment {other.name}", other.place),),
        )


def may_share(one: Environment, other: Environment) -> bool:
    """Whether engines apply two environments, and nothing says that they do so in two clusters."""
    apart = one.kube_context and other.kube_context and one.kube_context != other.kube_context
    applied = "none" not in (one.gitops.engine, other.gitops.engine)
    return applied and not apart and one.gitops.destination == other.gitops.destination


def share(one: Environment, other: Environment, tree: Tree) -> bool:
    """Whether two environments are known to be in one cluster: they name it, or the folder of
    wiring beside them has both for the cluster of its engine.
    """
    if not may_share(one, other):
        return False
    if one.gitops.destination != Destination() or one.kube_context == other.kube_context != "":
        return True
    return all(tree.kind(f"{WIRING}/{each.name}") == "folder" for each in (one, other))


def _title(name: str) -> str:
    """Return the kind and name of a recorded object."""
    return "/".join(name.split("/")[-2:])


def _place(file: JobFile, name: str, reader: Reader) -> Location:
    """Return the line that names the object: a volume's, for a claim of the job's own."""
    document = reader.document(file.path)
    if not isinstance(document, Document):
        return Location(file.path)
    volume = name.rpartition("/")[2].removeprefix(f"{file.name}-")
    return (
        document.key_place(f"/volumes/{volume}")
        if name.startswith("PersistentVolumeClaim/") and f"/volumes/{volume}" in document.places
        else document.place("/name")
    )
