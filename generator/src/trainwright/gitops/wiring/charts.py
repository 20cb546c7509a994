"""Where the chart comes from, in the modes that render it in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import ChartSource, GitOps
from trainwright.datatypes.pointer import Pointer
from trainwright.gitops.wiring.wiring import InvalidSetting, Site
from trainwright.runs.record import Record

_EITHER = "Write chart.oci and chart.version, or chart.path for a chart in a git repository."


def of_new_runs(gitops: GitOps) -> ChartSource:
    """Return the chart that environment.yaml names, with the repository that it is in."""
    return _located(gitops.chart_of_new_runs, gitops)


def of_run(record: Record, gitops: GitOps) -> tuple[ChartSource, bool]:
    """Return the chart that a run began with, and whether that is known.

    A run that began as rendered files was rendered with the chart version that its record names.
    """
    now = of_new_runs(gitops)
    written: Mapping[str, Data] = record.environment.get("gitops", {}).get("chart", {})
    fields = {key: written.get(key, "") for key in ("oci", "version", "url", "revision", "path")}
    source = ChartSource(**fields, secret=now.secret, verify=now.verify)
    if source.pinned:
        return _located(source, gitops), True
    if now.oci:
        return replace(now, version=record.chart), True
    return now, False


def _located(chart: ChartSource, gitops: GitOps) -> ChartSource:
    return chart if chart.oci else replace(chart, url=chart.url or gitops.repository.url)


def in_use(site: Site) -> tuple[ChartSource, ...]:
    """Return the chart of new runs first, then every other chart that existing runs began with."""
    charts = (of_new_runs(site.gitops), *(run.chart for run in site.runs))
    return tuple(dict.fromkeys(charts))


def unfit(site: Site) -> Iterator[InvalidSetting]:
    """Yield chart settings that are missing or contradict each other."""
    chart = site.gitops.chart
    if bool(chart.oci) == bool(chart.path):
        why = "the chart is in a registry and in a repository" if chart.oci else "there is none"
        yield InvalidSetting(Pointer("/chart"), f"the engine renders a chart, and {why}", _EITHER)
    elif chart.path and not site.gitops.chart_of_new_runs.pinned:
        revision = site.gitops.chart_of_new_runs.revision
        message = f"each commit of {revision} could change the chart under runs that train"
        remedy = "Set chart.revision to refs/tags/TAG or to a commit, all 40 digits of it."
        yield InvalidSetting(Pointer("/chart/revision"), message, remedy)
    if bool(chart.oci) != bool(chart.version):
        message = "chart.oci and chart.version belong together"
        yield InvalidSetting(
            Pointer("/chart"), message, "A chart without a fixed version would change under runs."
        )
    if chart.oci and (chart.url or chart.revision):
        message = "chart.url and chart.revision are for a chart in a git repository"
        yield InvalidSetting(Pointer("/chart"), message, _EITHER)


def not_needed(site: Site) -> Iterator[InvalidSetting]:
    """Refuse a chart if the rendered files are applied."""
    chart = site.gitops.chart
    if chart.oci or chart.path or chart.verify:
        message = "rendered files need no chart"
        yield InvalidSetting(Pointer("/chart"), message, "Remove chart, or set mode: chart.")
