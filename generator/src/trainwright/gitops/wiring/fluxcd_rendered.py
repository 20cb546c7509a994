"""Flux applies the rendered files: a Kustomization for each job, or for the whole environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import GitOps
from trainwright.documents.yamlio import Block
from trainwright.gitops.wiring import charts, fluxcd, kinds
from trainwright.gitops.wiring.wiring import Files, Requirement, Site, Wiring
from trainwright.kinds import ADOPTED, NAMED
from trainwright.kinds.kind import Kind
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.naming import LABEL, bounded, kustomization
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import VALUES_FILE

_BEFORE = "-prerequisites"
# Being there is enough: a claim may wait for its first pod, a pod waits for its Secret.
_THERE: Mapping[str, Data] = {"wait": False}


def _build(site: Site, namespace: str) -> Files:
    repository = site.gitops.repository
    source = fluxcd.repository(
        fluxcd.metadata(site, namespace, site.name),
        repository.url,
        repository.revision,
        site.rendered,
        repository.secret,
        repository.verify,
    )
    made = _for_each_job if _lists_jobs(site.gitops) else _for_the_environment
    kustomizations = tuple(
        _kustomization(site, namespace, source["kind"], name, path, rest)
        for name, path, rest in made(site)
    )
    if _lists_jobs(site.gitops):
        source["spec"]["ignore"] = Block(_no_manifests(site))
    files: Files = {"source.yaml": (source,)}
    return {**files, "kustomizations.yaml": kustomizations} if kustomizations else files


_Made = Iterator[tuple[str, str, dict[str, Data]]]  # name, path, and what is special


def _lists_jobs(gitops: GitOps) -> bool:
    return gitops.applications == "job"


def _for_each_job(site: Site) -> _Made:
    """Yield Kustomizations of one job each, since one refused object fails the whole of one."""
    if site.objects:
        yield bounded(f"{site.name}-objects"), site.copies, dict(_THERE)
    others = kinds.supporting(*site.environments)
    for run in site.runs:
        kind = NAMED[run.target]
        if not kind.is_served:
            continue
        name, path = kustomization(site.environment, run.job), f"{site.rendered}/{run.job}"
        if kind is ADOPTED:  # whose health Flux is not told
            yield name, path, {"wait": False}
        elif {*others} & {*kind.runtimes}:
            yield from _in_order(site, name, path, (kind,), others)
        else:
            yield name, path, _run(site, (kind,), others)


def _for_the_environment(site: Site) -> _Made:
    training = kinds.training(*site.environments)
    beside = {*kinds.supporting(*site.environments), *site.objects}
    others = tuple(sorted(beside - {*site.adopted}))
    yield from _in_order(site, site.name, site.rendered, training, others)


def _in_order(
    site: Site,
    name: str,
    path: str,
    training: tuple[Kind, ...],
    others: tuple[tuple[str, str], ...],
) -> _Made:
    """Yield a Kustomization of what runs need, then one of the runs, which depends on it.

    Flux dry-runs all objects of a Kustomization before it applies the first of them, and Kubeflow
    Trainer refuses a TrainJob whose runtime is not there yet.
    """
    before = bounded(name, LABEL - len(_BEFORE)) + _BEFORE
    runs = (*(kind.kind for kind in training), *(kind for _, kind in site.adopted))
    yield before, path, {**_THERE, "patches": [_without(dict.fromkeys(runs))]}
    then = {"dependsOn": [{"name": before}], "patches": [_without(kind for _, kind in others)]}
    yield name, path, {**_run(site, training), **then}


def _no_manifests(site: Site) -> str:
    """Return ignore patterns for the files next to the manifests: without a kustomization.yaml that
    lists the manifests, Flux would take these for manifests as well.

    https://fluxcd.io/flux/components/kustomize/kustomizations/#generating-a-kustomizationyaml-file
    """
    folder = f"/{site.rendered}/*"
    others = ("kustomization.yml", "Kustomization", KUSTOMIZATION_FILE, VALUES_FILE)
    return "".join(f"{folder}/{name}\n" for name in sorted(others))


def _kustomization(
    site: Site, namespace: str, source: str, name: str, path: str, rest: dict[str, Data]
) -> dict[str, Data]:
    confirm = site.gitops.prune == "confirm"
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": fluxcd.metadata(site, namespace, name),
        "spec": {
            "interval": fluxcd.INTERVAL,
            "retryInterval": "2m0s",
            "timeout": "5m0s",
            "path": f"./{path}",
            "sourceRef": {"kind": source, "name": site.name},
            **fluxcd.acting(site),
            # Never: it deletes a run and starts it again where a change in place is refused.
            "force": False,
            # A run that has left git may train, whatever it is annotated with.
            "prune": not confirm,
            **({"deletionPolicy": "Orphan"} if confirm else {}),
            **rest,
        },
    }


def _run(
    site: Site, training: tuple[Kind, ...], others: tuple[tuple[str, str], ...] = ()
) -> dict[str, Data]:
    """Return how runs are applied, along with the other objects in their Kustomization."""
    ignored = list(_ignored(site, training))
    return {**_health(site, training, others), **({"ignore": ignored} if ignored else {})}


def _health(
    site: Site, training: tuple[Kind, ...], others: tuple[tuple[str, str], ...]
) -> dict[str, Data]:
    """Return health checks: ready once operators have accepted all runs and none has failed.

    Other objects in it only have to exist, as those in a Kustomization that comes first.
    Without these expressions Flux would call any run ready. If it acts with its own rights, it
    checks batch Jobs before it looks at the expressions, and would wait for the Jobs to end: then
    it must not wait at all.
    https://github.com/fluxcd/kustomize-controller/blob/v1.9.4/internal/controller/kustomization_controller.go#L1365
    """
    if any(kind.awaited for kind in training) and not site.gitops.service_account:
        return {"wait": False}
    beside = (
        {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind, "current": "true"}
        for group, kind in others
    )
    return {"wait": True, "healthCheckExprs": [*_expressions(training), *beside]}


def _without(kinds: Iterable[str]) -> dict[str, Data]:
    """Return a patch that removes all objects of these kinds."""
    return {
        "target": {"kind": "|".join(kinds)},
        "patch": Block("$patch: delete\napiVersion: v1\nkind: Any\nmetadata:\n  name: any\n"),
    }


def _expressions(training: tuple[Kind, ...]) -> Iterator[dict[str, Data]]:
    for kind in training:
        states = kind.health
        yield {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "inProgress": states.in_progress,
            "failed": states.failed,
            "current": states.current,
        }


def _ignored(site: Site, training: tuple[Kind, ...]) -> Iterator[dict[str, Data]]:
    """Yield `spec.ignore` rules for fields that Kueue writes into queued objects. What it adds to a
    TrainJob are list items of its own, which need no rule.
    """
    if not site.queued:
        return
    for kind in training:
        if kind.suspend:
            placed = (f"{t}/spec/{field}" for t in kind.placed for field in kinds.PLACEMENT)
            yield {
                "target": {
                    "group": kind.group,
                    "kind": kind.kind,
                    "labelSelector": QUEUE_LABEL,
                },
                "paths": [kind.suspend, *placed],
            }


def _requires(site: Site) -> Iterator[Requirement]:
    """Yield the required Flux versions, and what for. Flux 2.9 has kustomize-controller 1.9.

    https://github.com/fluxcd/kustomize-controller/blob/v1.9.4/CHANGELOG.md
    """
    yield Requirement("2.5", "healthCheckExprs and deletionPolicy of a Kustomization")
    if any(_ignored(site, kinds.training(*site.environments))):
        yield Requirement("2.9", "spec.ignore of a Kustomization, for what Kueue writes")


WIRING = Wiring(
    engine="flux",
    mode="rendered",
    summary="GitRepository or OCIRepository, and a Kustomization for each job (or two for all).",
    namespace=fluxcd.NAMESPACE,
    build=_build,
    requires=_requires,
    unfit=lambda site: chain(fluxcd.unfit(site), charts.not_needed(site)),
    lists_runs=_lists_jobs,
)
