"""Argo CD renders the chart itself, with the values files in git."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.model import Data
from trainwright.pointer import Pointer
from trainwright.wiring import argocd, charts
from trainwright.wiring.wiring import Files, Site, Unfit, Wiring


def _build(site: Site, namespace: str) -> Files:
    chart, folder = _chart(site), argocd.folder(site)
    values = {
        "helm": {
            # The values name the object themselves; the release is only a word to Argo CD.
            "releaseName": "{{.path.basename}}",
            "valueFiles": [f"$values/{folder}/values.yaml"],
        }
    }
    sources = [{**chart, **values}, {**argocd.git_source(site), "ref": "values"}]
    project = argocd.project(site, namespace, tuple(source["repoURL"] for source in sources))
    paths = [f"/{folder}", *([f"/{chart['path']}"] if "path" in chart else [])]
    applications = argocd.applications(site, namespace, {"sources": sources}, ";".join(paths))
    files = {"appproject.yaml": project} if project else {}
    return {**files, "applicationset.yaml": (applications,)}


def _chart(site: Site) -> dict[str, Data]:
    chart = site.gitops.chart
    if chart.oci:
        # Argo CD takes a registry without oci:// for one of Helm charts.
        registry, _, name = chart.oci.removeprefix("oci://").rpartition("/")
        return {"repoURL": registry, "chart": name, "targetRevision": chart.version}
    url, revision = charts.repository(site)
    return {"repoURL": url, "targetRevision": revision, "path": chart.path}


def _unfit(site: Site) -> Iterator[Unfit]:
    yield from argocd.unfit(site)
    yield from charts.unfit(site)
    if site.gitops.applications == "environment":
        message = "a Helm release is one job, so there is an Application for each"
        yield Unfit(Pointer("/applications"), message, "Remove it, or set mode: rendered.")


WIRING = Wiring(
    engine="argocd",
    mode="chart",
    summary="AppProject, and an ApplicationSet of chart and values files, an Application a job.",
    namespace=argocd.NAMESPACE,
    build=_build,
    unfit=_unfit,
)
