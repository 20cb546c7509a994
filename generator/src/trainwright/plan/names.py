"""Jobs and environments that a merge calls otherwise: what runs is what it was before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Set
from itertools import filterfalse

from trainwright.datatypes.environment import Destination, Environment
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import leaves
from trainwright.datatypes.same import digest_of_data
from trainwright.objects.departure import ARGOCD_NAMESPACE, FLUX_NAMESPACE
from trainwright.objects.naming import wiring
from trainwright.plan import object_changes
from trainwright.plan.places import jobs_at, place_of
from trainwright.plan.revision import Revision
from trainwright.runs.workspace import Workspace


def environments(before: Workspace, after: Workspace) -> Mapping[str, str]:
    """Return the names that environments had before a merge, by those that they have after it: a
    new one that has most of the runs and objects of one that is gone is the same under another
    name.
    """
    return _same(before, after, after.survey.jobs.keys() - before.survey.jobs.keys())


def heirs(before: Workspace, after: Workspace) -> Mapping[str, str]:
    """Return, by environments that are gone, those that had most of their runs and objects already,
    as where an earlier merge has copied one that is renamed.
    """
    there = after.survey.jobs.keys() & before.survey.jobs.keys()
    return {former: name for name, former in _same(before, after, there).items()}


def _same(before: Workspace, after: Workspace, among: Collection[str]) -> Mapping[str, str]:
    """Return the environments that are gone, each by the one that has most of what it had."""
    gone = before.survey.jobs.keys() - after.survey.jobs.keys()
    common = Counter(
        (name, former)
        for name in (among if gone else ())
        for former in _in_common(before, after, name, gone)
    )
    names: dict[str, str] = {}
    for (name, former), _ in sorted(common.items(), key=lambda it: (-it[1], it[0])):
        if former not in names.values():
            names.setdefault(name, former)
    return names


def successors(before: Workspace, after: Workspace) -> Mapping[str, str]:
    """Return, by environments that are gone, those against whose limits what goes on of them
    counts: what each is called now, or else a new one of the same cluster and namespace.
    """
    found = {former: name for name, former in environments(before, after).items()}
    old, new = before.survey.jobs, after.survey.jobs
    begun = {_where(after, name): name for name in sorted(new.keys() - old.keys(), reverse=True)}
    for name in sorted(old.keys() - new.keys() - found.keys()):
        if (where := _where(before, name)) and where in begun:
            found[name] = begun[where]
    return found


def _where(side: Workspace, name: str) -> tuple[Destination, str] | None:
    """Return the cluster and the namespace of an environment, None if it is not sound."""
    environment = side.environments.get(name)
    return (environment.gitops.destination, environment.namespace) if environment else None


def _in_common(
    before: Workspace, after: Workspace, name: str, gone: Collection[str]
) -> Iterator[str]:
    """Yield a former environment for each run and each object of it that a new one has."""
    for file in after.survey.jobs[name]:
        place = place_of(after, file)
        others = jobs_at(before, place, ()) if place else ()
        yield from (other.environment for other in others if other.environment in gone)
    for former in gone:
        objects = object_changes.identities(before, former)
        yield from (former for it in object_changes.identities(after, name) if it in objects)


def jobs(
    before: Revision,
    after: Revision,
    touched: Collection[JobFile],
    renamed: Mapping[str, str],
) -> Mapping[JobFile, JobFile]:
    """Return, by new jobs that a merge touches, those that they were before, or share a run with:
    the ones with the object of their run; else the ones with their name in an environment that
    was `renamed`; else removed ones of the same environment, with the same content, or with most of
    it and the same program.
    """
    new = [file for file in sorted(touched) if after.has(file) and not before.has(file)]
    gone = [file for file in sorted(touched) if before.has(file) and not after.has(file)]
    alike = {(it.environment, spec): it for it in gone if (spec := content(before, it))}

    def same(file: JobFile) -> JobFile | None:
        place = place_of(after, file)
        others = jobs_at(before, place, touched) if place else ()
        return min(others, key=after.has, default=None)  # first one that has it no more

    def named(file: JobFile) -> JobFile | None:
        former = JobFile(renamed.get(file.environment, ""), file.name)
        return former if before.has(former) else None

    def copied(file: JobFile) -> JobFile | None:
        return alike.get((file.environment, content(after, file))) if gone else None

    def edited(file: JobFile) -> JobFile | None:
        values = _values(after, file)
        free = (it for it in gone if it.environment == file.environment and it not in taken)
        shared = {it: len(there & values) for it in free if _is_alike(there := old[it], values)}
        return max(shared, key=lambda it: shared[it], default=None)

    old = {it: _values(before, it) for it in gone} if new else {}
    found: dict[JobFile, JobFile] = {}
    taken = set[JobFile]()
    for find in (same, named, copied, edited):
        for file in filterfalse(found.__contains__, new):
            if (other := find(file)) and (find is same or other not in taken):
                found[file] = other
                taken.add(other)
    return found


def content(side: Revision, file: JobFile) -> str:
    """Return a digest of all values of a job's spec but its name; "" for one with errors."""
    spec = side.job(file).loaded.spec
    data = {key: value for key, value in spec.data.items() if key != "name"} if spec else {}
    return digest_of_data(data) if data else ""


def _values(side: Revision, file: JobFile) -> Set[str]:
    """Return what the file of a job itself sets, without its name; nothing for one with errors."""
    spec = side.job(file).loaded.spec
    own = leaves(spec.layers[-1].data) if spec else ()
    return {f"{path}: {value!r}" for path, value in own if path not in _UNLIKE}


_UNLIKE = ("/apiVersion", "/kind", "/name")


def _is_alike(one: Set[str], other: Set[str]) -> bool:
    """Whether two jobs have most of their values the same, and start the same program."""
    most = 2 * len(one & other) > max(len(one), len(other))
    return most and not any(it.startswith("/entrypoint") for it in one ^ other)


def applying(environment: Environment | None) -> str:
    """Return the objects by which an engine applies an environment, and where they are."""
    if environment is None or environment.gitops.engine == "none":
        return ""
    gitops, name = environment.gitops, wiring(environment)
    kinds, there = _APPLYING[gitops.engine, gitops.mode]
    return f"{kinds} `{name}` and `{name}-*` in namespace {gitops.namespace or there}"


_APPLYING = {
    ("argocd", "rendered"): ("Argo CD ApplicationSet and Applications", ARGOCD_NAMESPACE),
    ("argocd", "chart"): ("Argo CD ApplicationSet and Applications", ARGOCD_NAMESPACE),
    ("flux", "rendered"): ("Flux Kustomizations", FLUX_NAMESPACE),
    ("flux", "chart"): ("Flux Kustomizations and HelmReleases", FLUX_NAMESPACE),
}


def applied_by(was: Environment | None, now: Environment | None) -> tuple[str, ...]:
    """Return the names of the objects by which an engine applied an environment, and by which it
    will apply the renamed one, where these differ.
    """
    if was is None or now is None or was.gitops.engine != now.gitops.engine:
        return ()
    names = (wiring(was), wiring(now))
    return names if was.gitops.engine != "none" and names[0] != names[1] else ()
