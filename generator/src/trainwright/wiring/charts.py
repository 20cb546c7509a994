"""Where the chart comes from, in the modes that render it in the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.pointer import Pointer
from trainwright.wiring.wiring import Site, Unfit

_EITHER = "Write chart.oci and chart.version, or chart.path for a chart in a git repository."


def repository(site: Site) -> tuple[str, str]:
    """URL and revision of the git repository of the chart: by default that of the environments."""
    chart, own = site.gitops.chart, site.gitops.repository
    if chart.url:
        return chart.url, chart.revision or "main"
    return own.url, chart.revision or own.revision


def unfit(site: Site) -> Iterator[Unfit]:
    """What is missing or contradicts itself."""
    chart = site.gitops.chart
    if bool(chart.oci) == bool(chart.path):
        said = "the chart is in a registry and in a repository" if chart.oci else "there is none"
        yield Unfit(Pointer("/chart"), f"the engine renders a chart, and {said}", _EITHER)
    if bool(chart.oci) != bool(chart.version):
        message = "chart.oci and chart.version belong together"
        yield Unfit(
            Pointer("/chart"), message, "A chart without a fixed version would change under runs."
        )
    if chart.oci and (chart.url or chart.revision):
        message = "chart.url and chart.revision are for a chart in a git repository"
        yield Unfit(Pointer("/chart"), message, _EITHER)
