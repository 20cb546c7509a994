"""environment.yaml and what lies beside it into the environments that are to be wired."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from trainwright import diagnostics as dx
from trainwright import resolve
from trainwright.errors import SelectionError
from trainwright.index import RenderedFolder
from trainwright.load import ENVIRONMENTS, RENDERED, JobFile, LoadedEnvironment, Reader, survey
from trainwright.merge import Layer, Layered, stack
from trainwright.model import Environment, Finding, Place, Related, Severity
from trainwright.pointer import Pointer
from trainwright.render import VALUES_FILE
from trainwright.select import NO_ENVIRONMENT
from trainwright.tree import Folder
from trainwright.wiring import WIRINGS
from trainwright.wiring.wiring import Run, Site
from trainwright.yamlio import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """The chosen environments with their jobs, all of the repository, and what is wrong.

    `lines` are those of every file that a finding points into.
    """

    sites: tuple[Site, ...]
    jobs: Mapping[str, tuple[JobFile, ...]]
    environments: tuple[Environment, ...]
    findings: tuple[Finding, ...]
    lines: Mapping[str, tuple[str, ...]]

    @property
    def failed(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def look(root: Path, names: tuple[str, ...]) -> Surveyed:
    """The named environments, or all that a GitOps engine applies.

    Raises SelectionError for a name that is no environment, or that no engine applies.
    """
    tree = Folder(root)
    reader = Reader(tree)
    jobs = survey(tree).jobs
    if not jobs:
        raise SelectionError(NO_ENVIRONMENT)
    loaded = {name: reader.environment(name) for name in jobs}
    _refuse_unknown(names, loaded)
    environments = {name: place for name, of in loaded.items() if (place := _environment(of))}
    chosen = [
        name
        for name, of in loaded.items()
        if name in names or (not names and _applied(environments.get(name)))
    ]
    objects = cache(lambda name: _objects(root, name))  # each index once, however many compare
    sites = []
    findings = [finding for name in chosen for finding in loaded[name].findings]
    for name in chosen:
        place = environments.get(name)
        if place is None:
            continue
        if not _applied(place):
            raise SelectionError(f"nothing applies {name}: its gitops.engine is none")
        runs = tuple(_runs(root, reader, place))
        # A run that cannot be read must not be left out: its release would be deleted.
        findings += [finding for run in runs if not isinstance(run, Run) for finding in run]
        site = Site(environment=place, runs=tuple(run for run in runs if isinstance(run, Run)))
        sites.append(site)
        findings += _problems(site, _settings(loaded[name]))
        findings += _collisions(site, loaded[name], environments, objects)
    files = {place.file for finding in findings for place in _places(finding)}
    return Surveyed(
        sites=tuple(sites),
        jobs={name: jobs[name] for name in chosen},
        environments=tuple(environments.values()),
        findings=tuple(sorted(set(findings), key=lambda finding: finding.order)),
        lines={file: reader.lines(file) for file in sorted(files)},
    )


def _refuse_unknown(names: tuple[str, ...], loaded: Mapping[str, LoadedEnvironment]) -> None:
    for name in names:
        if name not in loaded:
            near = get_close_matches(name, loaded, n=3, cutoff=0.6)
            listing = "see `trainwright list environments`"
            hint = f"did you mean {' or '.join(near)}?" if near else listing
            raise SelectionError(f'there is no environment "{name}"; {hint}')


def _applied(environment: Environment | None) -> bool:
    # One that cannot be read is among those that have to be spoken of.
    return environment is None or environment.gitops.engine != "none"


def _environment(loaded: LoadedEnvironment) -> Environment | None:
    if loaded.document is None:
        return None
    shared = next((layer for layer in loaded.layers if layer.label == "defaults"), None)
    below = shared.document.data.get("gitops") if shared else None
    return resolve.environment(loaded.name, loaded.document, below)


def _settings(loaded: LoadedEnvironment) -> Layered:
    """`gitops` with the line that set each of its values."""
    return stack(
        tuple(
            Layer(layer.label, layer.document, Pointer("/gitops"))
            for layer in loaded.layers
            if layer.label in ("defaults", "environment")
        )
    )


def _runs(
    root: Path, reader: Reader, environment: Environment
) -> Iterator[Run | tuple[Finding, ...]]:
    """Every rendered job of an environment whose wiring lists them, or why it cannot be read."""
    gitops = environment.gitops
    if not WIRINGS[gitops.engine, gitops.mode].lists_runs:
        return
    inside = f"{ENVIRONMENTS}/{environment.name}/{RENDERED}"
    folder = RenderedFolder(Folder(root), environment.name)
    objects = {job: run.object for job, run in folder.unrecorded.items()}
    objects |= {job: run.object for job, run in folder.records.items() if run.files}
    for job, object_ in sorted(objects.items()):
        values = reader.document(f"{inside}/{job}/{VALUES_FILE}")
        if isinstance(values, Document):
            yield Run(job=job, object=object_, values=values.data)
        else:
            yield values


def _problems(site: Site, settings: Layered) -> Iterator[Finding]:
    wiring = WIRINGS[site.gitops.engine, site.gitops.mode]
    for problem in wiring.unfit(site):
        yield dx.WIRING.at(
            settings.origin(problem.path),
            problem.message,
            remedy=problem.remedy,
            subject=site.environment.name,
            path=Pointer(f"/gitops{problem.path}"),
        )


def _collisions(
    site: Site,
    loaded: LoadedEnvironment,
    others: Mapping[str, Environment],
    objects: Callable[[str], frozenset[str]],
) -> Iterator[Finding]:
    """Other environments that render the same objects into the same namespace and cluster."""
    assert loaded.document is not None
    place = site.environment
    for name, other in others.items():
        if name == place.name or not _applied(other) or _address(other) != _address(place):
            continue
        same = sorted(objects(place.name) & objects(name))
        if same:
            what = f"{', '.join(same[:3])}{f' and {len(same) - 3} more' if len(same) > 3 else ''}"
            yield dx.SHARED_OBJECT.at(
                loaded.document.place("/namespace"),
                f"{name} renders the same objects into {place.namespace}: {what}",
                subject=place.name,
                path=Pointer("/namespace"),
                related=(Related("also", f"environment {name}", other.place),),
            )


def _address(environment: Environment) -> tuple[str, str, str]:
    there = environment.gitops.destination
    return environment.namespace, there.server, there.name


def _objects(root: Path, environment: str) -> frozenset[str]:
    folder = RenderedFolder(Folder(root), environment)
    listed = (run.object for run in folder.unrecorded.values())
    return frozenset((*listed, *(run.object for run in folder.records.values() if run.files)))


def _places(finding: Finding) -> Iterator[Place]:
    yield finding.place
    yield from (related.place for related in finding.related if related.place)
