"""Which chart a GitOps engine renders, if it renders one."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.environment import Environment
from trainwright.gitops.wiring import charts
from trainwright.helm import own_chart
from trainwright.runs.workspace import Workspace
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, warning


def chart_sources(examined: Examined) -> Iterator[Diagnosis]:
    rendering = {
        name: environment
        for name, environment in examined.workspace.environments.items()
        if environment.gitops.engine != "none" and environment.gitops.mode == "chart"
    }
    if not rendering:
        yield ok("rendered here for every environment")
    for name, environment in rendering.items():
        yield _source(name, environment)
        yield from _earlier(examined.workspace, name, environment)


def _source(name: str, environment: Environment) -> Diagnosis:
    chart = charts.of_new_runs(environment.gitops)
    if not chart.pinned:
        return error(
            f"{name} takes the chart from {chart.revision or 'nowhere'}, which pins nothing",
            "A commit there could change the chart under runs that train.",
            "Set gitops.chart: oci and version, or revision: refs/tags/TAG or a commit.",
            environment.place,
        )
    own = own_chart.version()
    if chart.oci and chart.version != own:
        return warning(
            f"{name} takes chart {chart.version}, and values are written for chart {own}",
            "The next runs are not rendered in the cluster as they were checked here.",
            f"Push chart {own} (`trainwright admin chart push`), and set gitops.chart.version. "
            "Runs that have begun keep theirs.",
            environment.place,
        )
    return ok(f"{name} takes chart {chart.version or chart.revision}")


def _earlier(workspace: Workspace, name: str, environment: Environment) -> Iterator[Diagnosis]:
    runs = [run for run in workspace.folder(name).records.values() if run.files]
    run_charts = [charts.of_run(run, environment.gitops)[0] for run in runs]
    now = charts.of_new_runs(environment.gitops)
    count = sum(chart != now for chart in run_charts)
    if count:
        keep = "1 run keeps its" if count == 1 else f"{count} runs keep their"
        yield ok(f"{name}: {keep} earlier chart")
