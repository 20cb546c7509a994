"""Flux applies the rendered files: first what runs need, then the runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from trainwright.datatypes.model import Data
from trainwright.gitops.wiring import charts, fluxcd, kinds
from trainwright.gitops.wiring.naming import LABEL, bounded
from trainwright.gitops.wiring.wiring import Files, Site, Wiring
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.specs.yamlio import Block

_BEFORE = "-prerequisites"


def _build(site: Site, namespace: str) -> Files:
    repository = site.gitops.repository
    source = fluxcd.repository(
        fluxcd.metadata(site, namespace, site.name),
        repository.url,
        repository.revision,
        site.rendered,
        repository.secret,
    )
    # Flux tries all objects of a Kustomization out before it applies the first of them, and
    # Kubeflow Trainer refuses a TrainJob whose runtime is not there: so there are two.
    jobs = tuple(kind.kind for kind in kinds.training(*site.environments))
    supporting = {*kinds.supporting(*site.environments), *site.objects}
    others = tuple(kind for _, kind in sorted(supporting))
    before = bounded(site.name, LABEL - len(_BEFORE)) + _BEFORE
    return {
        "source.yaml": (source,),
        "kustomizations.yaml": (
            _kustomization(site, namespace, before, source["kind"], _first(site, jobs)),
            _kustomization(site, namespace, site.name, source["kind"], _then(site, before, others)),
        ),
    }


def _kustomization(
    site: Site, namespace: str, name: str, source: str, rest: dict[str, Data]
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
            "path": f"./{site.rendered}",
            "sourceRef": {"kind": source, "name": site.name},
            **fluxcd.acting(site),
            # Never: it deletes a run and starts it again where a change in place is refused.
            "force": False,
            **({"deletionPolicy": "Orphan"} if confirm else {}),
            **rest,
        },
    }


def _first(site: Site, jobs: tuple[str, ...]) -> dict[str, Data]:
    return {
        # What a run needs must stay for as long as the run does.
        "prune": site.gitops.prune == "immediate",
        # Being there is enough: a claim may wait for its first pod, a pod waits for its Secret.
        "wait": False,
        "patches": [_without(jobs)],
    }


def _then(site: Site, before: str, others: tuple[str, ...]) -> dict[str, Data]:
    ignored = list(_ignored(site))
    return {
        "dependsOn": [{"name": before}],
        # Runs are annotated against it, unless prune: immediate is set.
        "prune": True,
        # Ready means that operators have taken all runs on and none has failed. Without these
        # expressions Flux would call any run ready, and wait for the end of a batch Job.
        "wait": True,
        "healthCheckExprs": list(_expressions(site)),
        **({"ignore": ignored} if ignored else {}),
        "patches": [_without(others)],
    }


def _without(kinds: tuple[str, ...]) -> dict[str, Data]:
    """A patch that leaves kinds out."""
    return {
        "target": {"kind": "|".join(kinds)},
        "patch": Block("$patch: delete\napiVersion: v1\nkind: Any\nmetadata:\n  name: any\n"),
    }


def _expressions(site: Site) -> Iterator[dict[str, Data]]:
    for kind in kinds.training(*site.environments):
        states = kind.health.flux
        yield {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "inProgress": states.in_progress,
            "failed": states.failed,
            "current": states.current,
        }


def _ignored(site: Site) -> Iterator[dict[str, Data]]:
    """What Kueue writes into what has a queue. Items that it adds to a TrainJob are its own."""
    if not site.queued:
        return
    for kind in kinds.training(*site.environments):
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


WIRING = Wiring(
    engine="flux",
    mode="rendered",
    summary="GitRepository or OCIRepository, and two Kustomizations: prerequisites, then runs.",
    namespace=fluxcd.NAMESPACE,
    build=_build,
    unfit=lambda site: chain(fluxcd.unfit(site), charts.not_needed(site)),
)
