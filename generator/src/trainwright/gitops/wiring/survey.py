"""A survey of environment.yaml and the files beside it: the environments to be wired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.finding import Finding, Location, Related, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.layout import (
    NO_ENVIRONMENT,
    JobFile,
    rendered_folder,
)
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document
from trainwright.findings import diagnostics as dx
from trainwright.gitops.wiring import charts, wiring_of
from trainwright.gitops.wiring.wiring import ENGINES, Site, WiredRun
from trainwright.kinds import ADOPTED
from trainwright.objects.naming import application_name
from trainwright.objects.naming import wiring as wiring_name
from trainwright.runs import collisions
from trainwright.runs import record as records
from trainwright.runs.folder import RenderedFolder
from trainwright.runs.record import VALUES_FILE
from trainwright.runs.recorded_job import began_in
from trainwright.runs.workspace import Workspace
from trainwright.specs.layers import of_gitops
from trainwright.specs.load import LoadedEnvironment, Reader
from trainwright.specs.merge import Layered


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSites:
    """The chosen environments with their jobs, all environments of the repository, and findings.

    `environments` has each as it is, and as it was for runs that began before it was edited;
    `applied` names those that an engine applies, whether chosen or not, and `refused` the chosen
    ones that have errors. `lines` has the lines of every file that a finding points into.
    """

    sites: tuple[Site, ...]
    jobs: Mapping[str, tuple[JobFile, ...]]
    environments: tuple[Environment, ...]
    applied: tuple[str, ...]
    refused: frozenset[str]
    findings: tuple[Finding, ...]
    lines: Mapping[str, tuple[str, ...]]

    @property
    def sound(self) -> LoadedSites:
        """The same without the sites that have errors."""
        sites = tuple(it for it in self.sites if it.environment.name not in self.refused)
        return replace(self, sites=sites)

    @property
    def failed(self) -> bool:
        return bool(self.refused)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(_errors(self.findings))


def load_sites(workspace: Workspace, names: tuple[str, ...] | None = None) -> LoadedSites:
    """Return the named environments of a repository, or all that a GitOps engine applies.

    Raise SelectionError for a name that is not an environment, or that no engine applies.
    """
    jobs, environments = workspace.survey.jobs, workspace.environments
    if not jobs and names is None:
        raise SelectionError(NO_ENVIRONMENT)
    for name in names or ():
        workspace.require(name)
    every = applied(workspace)
    chosen = every if names is None else [name for name in jobs if name in names]
    earlier = {
        name: _earlier(workspace.folder(name), place) for name, place in environments.items()
    }
    objects = cache(lambda name: collisions.objects(workspace.folder(name).records))
    surveyed = cache(lambda name: _site(workspace, environments[name], earlier[name]))
    names_in = cache(lambda name: _names(surveyed(name)[0], (job.name for job in jobs[name])))
    sites = []
    found: dict[str, list[Finding]] = {}
    for name in chosen:
        findings = found.setdefault(name, [*workspace.loaded(name).findings])
        place = environments.get(name)
        if place is None:
            continue
        if not _applied(place):
            raise SelectionError(f"nothing applies {name}: its gitops.engine is none")
        folder, loaded = workspace.folder(name), workspace.loaded(name)
        settings, (site, unread) = of_gitops(loaded.layers), surveyed(name)
        # A run that cannot be read must not be left out: its release would be deleted.
        findings += _unreadable(folder, jobs[name])
        findings += unread
        sites.append(site)
        findings += _problems(site, settings)
        findings += _beside_the_engine(site, loaded)
        findings += _twice(site, names_in(name), settings)
        findings += _same_names(site, settings, environments, names_in)
        if jobs[name] and not folder.is_there:
            findings += _elsewhere(site, settings, len(jobs[name]))
        findings += _unpinned(site, settings)
        findings += _unencrypted(site, settings)
        findings += _collisions(loaded, place, environments, objects)
    everything = {finding for findings in found.values() for finding in findings}
    files = {place.file for finding in everything for place in _places(finding)}
    return LoadedSites(
        sites=tuple(sites),
        jobs={name: jobs[name] for name in chosen},
        environments=tuple(
            environment
            for name, place in environments.items()
            for environment in (place, *earlier[name])
        ),
        applied=tuple(every),
        refused=frozenset(name for name, findings in found.items() if any(_errors(findings))),
        findings=tuple(sorted(everything, key=lambda finding: finding.order)),
        lines={file: workspace.reader.lines(file) for file in sorted(files)},
    )


def _errors(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity is Severity.ERROR)


def applied(workspace: Workspace) -> list[str]:
    """Return the environments that a GitOps engine applies."""
    environments = workspace.environments
    return [name for name in workspace.survey.jobs if _applied(environments.get(name))]


def _site(
    workspace: Workspace, place: Environment, earlier: tuple[Environment, ...]
) -> tuple[Site, tuple[Finding, ...]]:
    """An environment to be wired, and findings about runs that cannot be read."""
    folder = workspace.folder(place.name)
    runs = tuple(_runs(folder, workspace.reader, place))
    own = workspace.own_objects(place.name).objects
    site = Site(
        environment=place,
        earlier=earlier,
        runs=tuple(run for run in runs if isinstance(run, WiredRun)),
        objects=tuple(sorted({own_object.manifest.group_kind for own_object in own})),
        adopted=_adopted(folder),
    )
    return site, tuple(f for run in runs if not isinstance(run, WiredRun) for f in run)


def _applied(environment: Environment | None) -> bool:
    # An environment that cannot be read counts as well, so that its errors are reported.
    return environment is None or environment.gitops.engine != "none"


def _earlier(folder: RenderedFolder, today: Environment) -> tuple[Environment, ...]:
    """Return the environments that recorded runs began in, once for each distinct wiring."""
    by_wiring: dict[Data, Environment] = {}
    for record in folder.records.values():
        if record.files:
            place = began_in(record, today)
            runtimes = tuple((name, target.runtime) for name, target in place.targets.items())
            by_wiring.setdefault((place.namespace, place.queueing, runtimes), place)
    return tuple(by_wiring[key] for key in sorted(by_wiring))


def _adopted(folder: RenderedFolder) -> tuple[GroupKind, ...]:
    """Return the kinds of runs that were adopted as they are, also beside the targets."""
    runs = (run for run in folder.records.values() if run.target == ADOPTED.name)
    named = {GroupKind(*identifier.split("/")[:2]) for run in runs for identifier in run.objects}
    return tuple(sorted(named))


def _unreadable(folder: RenderedFolder, jobs: tuple[JobFile, ...]) -> Iterator[Finding]:
    """Yield a finding for each record that exists but cannot be read."""
    for job in jobs:
        if job.name not in folder.records and folder.is_unreadable(job.name):
            yield dx.UNRECORDED.at(
                Location(records.path(job)),
                "what this run began with cannot be read",
                remedy=f"Take the file from git, or let `trainwright render {job}` write it again.",
                subject=str(job),
            )


def _runs(
    folder: RenderedFolder, reader: Reader, environment: Environment
) -> Iterator[WiredRun | tuple[Finding, ...]]:
    """Yield every rendered job of an environment whose wiring lists them, or its findings."""
    gitops = environment.gitops
    wiring = wiring_of(gitops)
    if not wiring.lists_runs(gitops):
        return
    inside = rendered_folder(environment.name)
    for job, record in sorted(folder.records.items()):
        if not record.files:
            continue
        values: Mapping[str, Data] = {}
        if wiring.reads_values:
            document = reader.document(f"{inside}/{job}/{VALUES_FILE}")
            if not isinstance(document, Document):
                yield document
                continue
            values = document.data
        chart, pinned = charts.of_run(record, gitops)
        yield WiredRun(
            job=job,
            object=record.object,
            target=record.target,
            namespace=record.environment["namespace"],
            chart=chart,
            pinned=pinned,
            values=values,
        )


def _problems(site: Site, settings: Layered) -> Iterator[Finding]:
    wiring = wiring_of(site.gitops)
    for problem in (*wiring.unfit(site), *site.too_old(wiring.requires(site))):
        yield dx.WIRING.at(
            settings.origin(problem.path),
            problem.message,
            remedy=problem.remedy,
            subject=site.environment.name,
            path=Pointer(f"/gitops{problem.path}"),
        )


def _names(site: Site, jobs: Iterable[str]) -> Counter[tuple[str, str]]:
    """How often the engine is given each kind and name of an object, by what it makes itself too.

    Empty for an environment that cannot be wired.
    """
    wiring = wiring_of(site.gitops)
    if any(wiring.unfit(site)):
        return Counter()
    built = tuple(chain.from_iterable(wiring.build(site, wiring.namespace).values()))
    given = Counter((body["kind"], body["metadata"]["name"]) for body in built)
    if any(kind == "ApplicationSet" for kind, _ in given):
        given.update(("Application", application_name(site.environment, job)) for job in jobs)
    return given


def _twice(site: Site, given: Counter[tuple[str, str]], settings: Layered) -> Iterator[Finding]:
    """Yield a finding for each object that would be applied over another of the environment."""
    for (kind, name), number in sorted(given.items()):
        if number > 1:
            yield dx.WIRING.at(
                settings.origin(Pointer("/name")),
                f"the {kind} {name} would be there twice, for different files",
                remedy="Rename the job that ends in -objects or -prerequisites, or is called so: "
                "names of Applications and Kustomizations end so.",
                subject=site.environment.name,
                path=Pointer("/gitops/name"),
            )


def _same_names(
    site: Site,
    settings: Layered,
    others: Mapping[str, Environment],
    names_in: Callable[[str], Counter[tuple[str, str]]],
) -> Iterator[Finding]:
    """Other environments that give the same engine an object of the same kind and name."""
    place = site.environment
    for name, other in others.items():
        if name == place.name or not _may_share_names(place, other):
            continue
        same = sorted(names_in(place.name).keys() & names_in(name).keys())
        if same:
            what = "an object of the same name" if len(same) == 1 else "objects of the same names"
            yield dx.SHARED_OBJECT.at(
                settings.origin(Pointer("/name")),
                f"{name} has {what}: {listed([f'{kind} {it}' for kind, it in same])}",
                remedy="Set gitops.name in one of them, to a name that begins no other's; where "
                "different clusters have the two, nothing is wrong.",
                effect="In one cluster, the object that is applied last replaces that of the other "
                "environment, whose runs nothing applies any more.",
                subject=place.name,
                path=Pointer("/gitops/name"),
                related=(Related("also", f"environment {name}", other.place),),
            )


def _may_share_names(one: Environment, other: Environment) -> bool:
    """Whether one engine has both, and the name of one begins the names of the other's objects."""
    mine, its = one.gitops, other.gitops
    names = f"{wiring_name(one)}-", f"{wiring_name(other)}-"
    return (
        its.engine != "none"
        and (mine.engine, mine.namespace) == (its.engine, its.namespace)
        and (names[0].startswith(names[1]) or names[1].startswith(names[0]))
    )


def _beside_the_engine(site: Site, loaded: LoadedEnvironment) -> Iterator[Finding]:
    """Yield a finding if runs share a namespace with the engine, whose rights any pod there has
    that names its ServiceAccount or mounts its Secrets.
    """
    assert loaded.document is not None
    wiring = wiring_of(site.gitops)
    namespace = site.environment.namespace
    if namespace == (site.gitops.namespace or wiring.namespace):
        yield dx.WIRING.at(
            loaded.document.place("/namespace"),
            f"the namespace {namespace} is that of {ENGINES[wiring.engine]} itself: a run there "
            "can have its ServiceAccounts and its Secrets",
            remedy="Give runs a namespace of their own.",
            subject=site.environment.name,
            path=Pointer("/namespace"),
        )


def _elsewhere(site: Site, settings: Layered, jobs: int) -> Iterator[Finding]:
    """Yield a finding if runs have to be listed but are rendered elsewhere, on a branch."""
    if site.gitops.engine == "argocd":
        return  # which looks for them itself
    wiring = wiring_of(site.gitops)
    if wiring.lists_runs(site.gitops):
        releases = wiring.reads_values
        path = Pointer("/mode") if releases else Pointer("/applications")
        what = "mode: chart has a release" if releases else "Flux has a Kustomization"
        instead = "mode: rendered" if releases else "applications: environment"
        yield dx.WIRING.at(
            settings.origin(path),
            f"{what} for each run, and nothing is rendered beside the specs of {jobs} jobs: "
            "applying this would leave out what runs",
            remedy=f"Run `trainwright render {site.environment.name}`, or set {instead} where "
            "`trainwright gitops publish` keeps the runs elsewhere.",
            subject=site.environment.name,
            path=Pointer(f"/gitops{path}"),
        )


def _unpinned(site: Site, settings: Layered) -> Iterator[Finding]:
    """Yield a finding if runs use environment.yaml's chart because theirs is not recorded."""
    jobs = [run.job for run in site.runs if not run.pinned]
    if jobs and charts.of_new_runs(site.gitops).pinned:
        path = Pointer("/chart")
        yield dx.UNPINNED_CHART.at(
            settings.origin(path),
            f"the chart with which these runs began is not recorded: {listed(jobs)}",
            subject=site.environment.name,
            path=Pointer(f"/gitops{path}"),
        )


def _unencrypted(site: Site, settings: Layered) -> Iterator[Finding]:
    """Yield a finding for each repository that is read by http:// without signatures."""
    for name, source in (("repository", site.gitops.repository), ("chart", site.gitops.chart)):
        if source.url.startswith("http://") and not source.verify:
            path = Pointer.of(name, "url")
            yield dx.UNENCRYPTED.at(
                settings.origin(path),
                f"{source.url} is read without encryption",
                subject=site.environment.name,
                path=Pointer(f"/gitops{path}"),
            )


def _collisions(
    loaded: LoadedEnvironment,
    place: Environment,
    others: Mapping[str, Environment],
    objects: Callable[[str], collisions.Objects],
) -> Iterator[Finding]:
    """Yield other environments that render the same objects into the same namespace and cluster."""
    for name, other in others.items():
        if name != place.name and collisions.may_share(place, other):
            rendered = (objects(place.name), objects(name))
            yield from collisions.across(loaded, place, other, rendered)


def _places(finding: Finding) -> Iterator[Location]:
    yield finding.place
    yield from (related.place for related in finding.related if related.place)
