"""Flux renders the chart itself: a HelmRelease for each run, with its values."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.model import Data
from trainwright.pointer import Pointer
from trainwright.wiring import charts, fluxcd, kinds
from trainwright.wiring.naming import bounded
from trainwright.wiring.wiring import Files, Run, Site, Unfit, Wiring

_LONGEST_RELEASE = 53  # Helm's limit


def _build(site: Site, namespace: str) -> Files:
    releases = tuple(_release(site, namespace, run) for run in site.runs)
    files: Files = {"source.yaml": (_source(site, namespace),)}
    return {**files, "helmreleases.yaml": releases} if releases else files


def _source(site: Site, namespace: str) -> dict[str, Data]:
    chart = site.gitops.chart
    metadata = fluxcd.metadata(site, namespace, site.name)
    if chart.oci:
        source = fluxcd.oci_repository(metadata, chart.oci, chart.version, chart.secret)
        layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
        source["spec"]["layerSelector"] = {"mediaType": layer, "operation": "copy"}
        return source
    url, revision = charts.repository(site)
    secret = chart.secret or (not chart.url and site.gitops.repository.secret) or ""
    return fluxcd.repository(metadata, url, revision, chart.path, secret)


def _release(site: Site, namespace: str, run: Run) -> dict[str, Data]:
    """A release of a run's own, so that a changed job is a new release beside the old one.

    An upgrade of the same release would delete the old run.
    """
    name = bounded(run.object, _LONGEST_RELEASE)
    metadata = fluxcd.metadata(site, namespace, fluxcd.release(site, run.object))
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
            "targetNamespace": site.environment.namespace,
            "storageNamespace": site.environment.namespace,
            **fluxcd.acting(site),
            **_chart(site),
            "install": _applying(),
            "upgrade": {**_applying(), "cleanupOnFail": False, "force": False},
            "uninstall": {"disableWait": True},
            # Kueue writes into the objects of a release, and would be undone.
            "driftDetection": {"mode": "disabled"},
            "values": dict(run.values),
        },
    }


def _applying() -> dict[str, Data]:
    """How to install and upgrade without ever uninstalling.

    By default Helm waits five minutes for the end of a run, calls it failed and removes it.
    """
    return {
        "disableWait": True,
        "disableWaitForJobs": True,
        "strategy": {"name": "RetryOnFailure", "retryInterval": "5m0s"},
        "remediation": {"retries": 0, "remediateLastFailure": False},
    }


def _chart(site: Site) -> dict[str, Data]:
    if site.gitops.chart.oci:
        return {"chartRef": {"kind": "OCIRepository", "name": site.name}}
    return {
        "chart": {
            "spec": {
                "chart": f"./{site.gitops.chart.path}",
                "reconcileStrategy": "ChartVersion",
                "sourceRef": {"kind": "GitRepository", "name": site.name},
            }
        }
    }


def _unfit(site: Site) -> Iterator[Unfit]:
    yield from (problem for problem in fluxcd.unfit(site) if problem.path != "/repository/url")
    yield from charts.unfit(site)
    url, _ = charts.repository(site)
    if site.gitops.chart.path and not url.startswith(("https://", "ssh://", "http://")):
        message = "the chart is a folder, and nothing says of which git repository"
        yield Unfit(Pointer("/chart"), message, "Write chart.url, or repository.url.")
    if ("trainer.kubeflow.org", "TrainingRuntime") in kinds.supporting(site.environment):
        # https://github.com/helm/helm/blob/main/pkg/release/v1/util/kind_sorter.go
        message = "Helm creates a TrainJob before its TrainingRuntime, and Trainer refuses it then"
        remedy = "Set mode: rendered, or targets.trainjob.runtime."
        yield Unfit(Pointer("/mode"), message, remedy)


WIRING = Wiring(
    engine="flux",
    mode="chart",
    summary="OCIRepository or GitRepository of the chart, and a HelmRelease a run.",
    namespace=fluxcd.NAMESPACE,
    build=_build,
    unfit=_unfit,
    lists_runs=True,
)
