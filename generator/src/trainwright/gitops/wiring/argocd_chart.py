"""Argo CD renders the chart itself, with the values files in git."""

from __future__ import annotations

import json
from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import ChartSource
from trainwright.datatypes.pointer import Pointer
from trainwright.gitops.wiring import argocd, charts
from trainwright.gitops.wiring.wiring import Files, InvalidSetting, Site, Wiring

# The chart in a run's record, for the Go templates of an ApplicationSet, which have sprig.
_RECORDED = 'dig "gitops" "chart" (dict) .environment'
_NAMESPACE = "{{.environment.namespace}}"


def _build(site: Site, namespace: str) -> Files:
    values = {
        "helm": {
            # The values name the object themselves; the release is only a word to Argo CD.
            "releaseName": "{{.path.basename}}",
            "valueFiles": [f"$values/{argocd.folder(site)}/values.yaml"],
        }
    }
    sources = [{**_chart(site), **values}, {**argocd.git_source(site), "ref": "values"}]
    repositories = (_repository(chart) for chart in charts.in_use(site))
    project = argocd.project(site, namespace, (*repositories, site.gitops.repository.url))
    applications = argocd.applications(
        site, namespace, argocd.of_records(site), {"sources": sources}, _NAMESPACE
    )
    files = {"appproject.yaml": project} if project else {}
    objects = argocd.objects(site, namespace)
    files |= {"objects.yaml": objects} if objects else {}
    return {**files, "applicationset.yaml": (applications,)}


def _repository(chart: ChartSource) -> str:
    # Argo CD takes a registry without oci:// for one of Helm charts.
    return chart.oci.removeprefix("oci://").rpartition("/")[0] if chart.oci else chart.url


def _chart(site: Site) -> dict[str, Data]:
    """Return the chart's source: if all runs have it from one place, only its version varies."""
    now, *others = charts.in_use(site)
    default = _default(now)
    if any(_place(chart) != _place(now) for chart in others):
        return _of_several(site)
    if now.oci:
        name = now.oci.rpartition("/")[2]
        version = f'{{{{dig "gitops" "chart" "version" {default} .environment}}}}'
        return {"repoURL": _repository(now), "chart": name, "targetRevision": version}
    revision = f'{{{{dig "gitops" "chart" "revision" {default} .environment}}}}'
    return {"repoURL": now.url, "targetRevision": revision, "path": now.path}


def _place(chart: ChartSource) -> tuple[str, str, str]:
    return chart.oci, chart.url, chart.path


def _default(now: ChartSource) -> str:
    """Return the template expression for the version or revision of a chart whose record has none.

    What began as rendered files was rendered with the chart of a version.
    """
    return ".renderedBy.chart" if now.oci else json.dumps(now.revision)


def _of_several(site: Site) -> dict[str, Data]:
    """Return the chart if registries, repositories or folders differ from run to run.

    A record without a version or revision pins nothing: then it is the environment's.
    """
    now = charts.of_new_runs(site.gitops)
    pins = 'or (get $chart "version") (get $chart "revision")'
    fields = {"oci": now.oci, "url": now.url, "path": now.path}
    pairs = " ".join(f'"{name}" {json.dumps(value)}' for name, value in fields.items() if value)
    pairs += f' "{"version" if now.oci else "revision"}" {_default(now)}'
    head = (
        f"{{{{- $chart := {_RECORDED} -}}}}"
        f"{{{{- if not ({pins}) -}}}}{{{{- $chart = dict {pairs} -}}}}{{{{- end -}}}}"
    )
    oci, own = 'get $chart "oci"', json.dumps(site.gitops.repository.url)
    registry = f'{{{{{oci} | trimPrefix "oci://" | dir}}}}'
    url = f'{{{{get $chart "url" | default {own}}}}}'
    return {
        "repoURL": f"{head}{{{{if {oci}}}}}{registry}{{{{else}}}}{url}{{{{end}}}}",
        "chart": f"{head}{{{{if {oci}}}}}{{{{base ({oci})}}}}{{{{end}}}}",
        "targetRevision": f'{head}{{{{get $chart "version" | default (get $chart "revision")}}}}',
        "path": f'{head}{{{{get $chart "path"}}}}',
    }


def _unfit(site: Site) -> Iterator[InvalidSetting]:
    yield from argocd.unfit(site)
    yield from charts.unfit(site)
    if site.gitops.applications == "environment":
        message = "a Helm release is one job, so there is an Application for each"
        yield InvalidSetting(Pointer("/applications"), message, "Remove it, or set mode: rendered.")


WIRING = Wiring(
    engine="argocd",
    mode="chart",
    summary="AppProject, and an ApplicationSet of chart and values files, an Application a job.",
    namespace=argocd.NAMESPACE,
    build=_build,
    requires=argocd.requires,
    unfit=_unfit,
    lists_runs=lambda _: True,
)
