"""Flux renders the chart itself: a HelmRelease for each run, with its values."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import ChartSource
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.same import digest
from trainwright.gitops.wiring import charts, fluxcd, kinds
from trainwright.gitops.wiring.wiring import (
    Files,
    InvalidSetting,
    Requirement,
    Site,
    WiredRun,
    Wiring,
)
from trainwright.objects.naming import bounded, release

_LONGEST_RELEASE = 53  # Helm's limit


def _build(site: Site, namespace: str) -> Files:
    releases = tuple(_release(site, namespace, run) for run in site.runs)
    sources = tuple(_source(site, namespace, chart) for chart in charts.in_use(site))
    files: Files = {"source.yaml": sources}
    if site.objects:
        files = {**files, "objects.yaml": _objects(site, namespace)}
    return {**files, "helmreleases.yaml": releases} if releases else files


def _objects(site: Site, namespace: str) -> tuple[dict[str, Data], ...]:
    """Return what applies the user's own objects, which are files in git and part of no release."""
    name = bounded(f"{site.name}-objects")
    own = site.gitops.repository
    metadata = fluxcd.metadata(site, namespace, name)
    source = fluxcd.repository(metadata, own.url, own.revision, site.copies, own.secret, own.verify)
    kustomization = {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": metadata,
        "spec": {
            "interval": fluxcd.INTERVAL,
            "timeout": "5m0s",
            "path": f"./{site.copies}",
            "sourceRef": {"kind": source["kind"], "name": name},
            **fluxcd.acting(site),
            "prune": site.gitops.prune == "immediate",
            "wait": False,
            "force": False,
        },
    }
    return (source, kustomization)


def _source(site: Site, namespace: str, chart: ChartSource) -> dict[str, Data]:
    metadata = fluxcd.metadata(site, namespace, _source_name(site, chart))
    if chart.oci:
        source = fluxcd.oci_repository(
            metadata, chart.oci, chart.version, chart.secret, chart.verify
        )
        layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
        source["spec"]["layerSelector"] = {"mediaType": layer, "operation": "copy"}
        return source
    own = site.gitops.repository
    secret = chart.secret or (own.secret if chart.url == own.url else "")
    verify = chart.verify or (own.verify if chart.url == own.url else None)
    return fluxcd.repository(metadata, chart.url, chart.revision, chart.path, secret, verify)


def _source_name(site: Site, chart: ChartSource) -> str:
    """Return a source's name, which identifies its chart, so that no name is ever reused.

    A name that moved to another version would upgrade every release that still refers to it.
    """
    identity = "\n".join((chart.oci, chart.version, chart.url, chart.revision, chart.path))
    return bounded(f"{site.name}-chart-{digest(identity.encode())[:8]}")


def _release(site: Site, namespace: str, run: WiredRun) -> dict[str, Data]:
    """Return a HelmRelease for one run: a changed job becomes a new release next to the old one.

    An upgrade of the same release would delete the old run.
    """
    name = bounded(run.object, _LONGEST_RELEASE)
    metadata = fluxcd.metadata(site, namespace, release(site.environment, run.object))
    if site.gitops.prune == "confirm":
        metadata["annotations"] = {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": metadata,
        "spec": {
            "interval": fluxcd.INTERVAL,
            "timeout": "5m0s",
            "releaseName": name,
            "targetNamespace": run.namespace,
            "storageNamespace": run.namespace,
            **fluxcd.acting(site),
            **_chart(site, run.chart),
            "install": _applying(),
            "upgrade": {**_applying(), "cleanupOnFail": False, "force": False},
            "uninstall": {"disableWait": True},
            # Kueue writes into the objects of a release, and would be undone.
            "driftDetection": {"mode": "disabled"},
            "values": dict(run.values),
        },
    }


def _applying() -> dict[str, Data]:
    """Return how to install and upgrade without ever uninstalling.

    By default Helm waits five minutes for the end of a run, calls it failed and removes it.
    """
    return {
        "disableWait": True,
        "disableWaitForJobs": True,
        "strategy": {"name": "RetryOnFailure", "retryInterval": "5m0s"},
        "remediation": {"retries": 0, "remediateLastFailure": False},
    }


def _chart(site: Site, chart: ChartSource) -> dict[str, Data]:
    name = _source_name(site, chart)
    if chart.oci:
        return {"chartRef": {"kind": "OCIRepository", "name": name}}
    return {
        "chart": {
            "spec": {
                "chart": f"./{chart.path}",
                "reconcileStrategy": "ChartVersion",
                "sourceRef": {"kind": "GitRepository", "name": name},
            }
        }
    }


def _unfit(site: Site) -> Iterator[InvalidSetting]:
    for problem in fluxcd.unfit(site):
        if problem.path != "/repository/url" or site.objects:
            yield problem
    yield from charts.unfit(site)
    url = charts.of_new_runs(site.gitops).url
    if site.gitops.chart.path and not url.startswith(("https://", "ssh://", "http://")):
        message = "the chart is a folder, and its git repository is not set"
        yield InvalidSetting(Pointer("/chart"), message, "Write chart.url, or repository.url.")
    if ("trainer.kubeflow.org", "TrainingRuntime") in kinds.supporting(*site.environments):
        # https://github.com/helm/helm/blob/main/pkg/release/v1/util/kind_sorter.go
        message = "Helm creates a TrainJob before its TrainingRuntime, and Trainer refuses it then"
        remedy = "Set mode: rendered, or targets.trainjob.runtime."
        yield InvalidSetting(Pointer("/mode"), message, remedy)


def _requires(_site: Site) -> Iterator[Requirement]:
    """Yield the required Flux versions, and what for. Flux 2.7 has helm-controller 1.4.

    https://github.com/fluxcd/helm-controller/blob/v1.6.3/CHANGELOG.md
    """
    yield Requirement("2.7", "strategy RetryOnFailure of a HelmRelease")


WIRING = Wiring(
    engine="flux",
    mode="chart",
    summary="OCIRepository or GitRepository of the chart, and a HelmRelease a run.",
    namespace=fluxcd.NAMESPACE,
    build=_build,
    requires=_requires,
    unfit=_unfit,
    lists_runs=lambda _: True,
    reads_values=True,
)
