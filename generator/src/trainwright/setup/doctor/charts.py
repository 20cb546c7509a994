"""Which chart a GitOps engine renders, if it renders one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainwright.datatypes.environment import Environment
from trainwright.files.tree import Folder
from trainwright.gitops.wiring import charts
from trainwright.helm import own_chart
from trainwright.render.build import BuildOptions
from trainwright.runs.workspace import Workspace
from trainwright.setup.doctor.diagnosis import Diagnosis, State


def chart_sources(root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    workspace = Workspace(Folder(root))
    rendering = {
        name: environment
        for name, environment in workspace.environments.items()
        if environment.gitops.engine != "none" and environment.gitops.mode == "chart"
    }
    if not rendering:
        yield Diagnosis(
            about="chart", state=State.OK, message="rendered here for every environment"
        )
    for name, environment in rendering.items():
        yield _source(name, environment)
        yield from _earlier(workspace, name, environment)


def _source(name: str, environment: Environment) -> Diagnosis:
    chart = charts.of_new_runs(environment.gitops)
    if not chart.pinned:
        return Diagnosis(
            about="chart",
            state=State.ERROR,
            place=environment.place,
            message=(
                f"{name} takes the chart from {chart.revision or 'nowhere'}, which pins nothing"
            ),
            effect="A commit there could change the chart under runs that train.",
            remedy="Set gitops.chart: oci and version, or revision: refs/tags/TAG or a commit.",
        )
    own = own_chart.version()
    if chart.oci and chart.version != own:
        return Diagnosis(
            about="chart", state=State.WARNING, place=environment.place,
            message=f"{name} takes chart {chart.version}, and values are written for chart {own}",
            effect="The next runs are not rendered in the cluster as they were checked here.",
            remedy=f"Push chart {own} (`trainwright admin chart push`), and set "
            "gitops.chart.version. Runs that have begun keep theirs.",
        )  # fmt: skip
    message = f"{name} takes chart {chart.version or chart.revision}"
    return Diagnosis(about="chart", state=State.OK, message=message)


def _earlier(workspace: Workspace, name: str, environment: Environment) -> Iterator[Diagnosis]:
    runs = [run for run in workspace.folder(name).records.values() if run.files]
    run_charts = [charts.of_run(run, environment.gitops)[0] for run in runs]
    now = charts.of_new_runs(environment.gitops)
    count = sum(chart != now for chart in run_charts)
    if count:
        keep = "1 run keeps its" if count == 1 else f"{count} runs keep their"
        yield Diagnosis(about="chart", state=State.OK, message=f"{name}: {keep} earlier chart")
