"""Which GitOps engine applies an environment, and how that engine has to be set up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.gitops.wiring import argocd, wiring_of
from trainwright.gitops.wiring.wiring import ENGINES, Site
from trainwright.kinds import TARGETS
from trainwright.runs.record import Record
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, skipped, warning


def engines(examined: Examined) -> Iterator[Diagnosis]:
    workspace = examined.workspace
    wired = {
        name: Site(environment=environment)
        for name, environment in workspace.environments.items()
        if environment.gitops.engine in ENGINES
    }
    if not wired:
        yield skipped("none applies an environment")
    for name, site in wired.items():
        yield _version(name, site)
        records = workspace.folder(name).records.items()
        others = {job: record for job, record in records if _is_of_another(record, site)}
        if others:
            yield _earlier(name, site, others)


def _version(name: str, site: Site) -> Diagnosis:
    gitops = site.gitops
    engine, wiring = ENGINES[gitops.engine], wiring_of(gitops)
    for problem in site.too_old(wiring.requires(site)):
        effect = "The engine leaves it out, or refuses the object."
        return error(f"{name}: {problem.message}", effect, problem.remedy, site.environment.place)
    needed = max(wiring.requires(site), key=lambda it: tuple(map(int, it.version.split("."))))
    has = f"has {engine} {gitops.version}, and " if gitops.version else ""
    return ok(f"{name} {has}needs {engine} {needed.version} or later")


def _is_of_another(record: Record, site: Site) -> bool:
    return bool(record.files) and record.environment["gitops"]["engine"] != site.gitops.engine


def _earlier(name: str, site: Site, records: Mapping[str, Record]) -> Diagnosis:
    """Return what becomes of runs for another engine, which the wiring protects all the same."""
    runs = "1 run was" if len(records) == 1 else f"{len(records)} runs were"
    message = f"{name}: {runs} rendered for another engine"
    if site.gitops.engine != "argocd":
        return ok(f"{message}; Flux takes them over when it applies them")
    effect = (
        "Nothing deletes them. But Argo CD takes none for its own, and no longer lists one that "
        "has left git."
    )
    return warning(message, effect, _adoption(site, records), site.environment.place)


def _adoption(site: Site, records: Mapping[str, Record]) -> str:
    """Return the commands for the first few runs, and how many more there are (see `list jobs`)."""
    commands = [
        argocd.adoption(site, job, TARGETS[run.target].of, run.environment["namespace"], run.object)
        for job, run in records.items()
    ]
    more = f", and {len(commands) - 3} more like it" if len(commands) > 3 else ""
    return "Run " + ", ".join(f"`{command}`" for command in commands[:3]) + f"{more}."
