"""The preview of an upgrade of the present repository from one version to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from trainwright.datatypes.frozen import dataclass
from trainwright.files.tree import Folder
from trainwright.helm import engines
from trainwright.plan.upgrade import chart, comparison, staging, versions
from trainwright.plan.upgrade.model import Upgrade
from trainwright.runs.workspace import Workspace
from trainwright.specs.select import select


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOptions:
    """Two versions by path: None for `before` is the running one, None for `after` that of
    `before`.

    `chart` is another chart, a folder or an archive, which the old version's values are given to.
    """

    today: str  # ISO date, for the expiry of waivers
    before: Path | None = None
    after: Path | None = None
    chart: Path | None = None


def upgrade(root: Path, patterns: tuple[str, ...], options: UpgradeOptions) -> Upgrade:
    """Return what an upgrade changes for the selected jobs. The repository is only read."""
    workspace = Workspace(Folder(root))
    selected = select(patterns, workspace.survey.jobs)
    jobs = {str(job) for selection in selected for job in selection.jobs}
    environments = tuple(selection.environment for selection in selected)
    with _scratch() as scratch:
        environ = staging.environment(scratch, options.today)
        old = (
            versions.find(options.before, environ, scratch)
            if options.before
            else versions.running(environ, scratch)
        )
        new = versions.find(options.after, environ, scratch) if options.after else old
        other = engines.OtherChart(options.chart) if options.chart else None
        present = staging.rendered_sums(root, environments)
        before = staging.outcome(old, root, selected, scratch / "before")
        after = before if new is old else staging.outcome(new, root, selected, scratch / "after")
        if other:
            places = {name: workspace.environments[name].namespace for name in environments}
            before, after = chart.outcomes(other, new, after, places, scratch)
    runs = {job: files for job, files in present.items() if job in jobs}
    declared = workspace.environments.values()
    starting = frozenset(e.name for e in declared if e.shared_changes == "start")
    charted = frozenset(e.name for e in declared if e.gitops.mode == "chart" and not other)
    special = comparison.Environments(starting=starting, charted=charted)
    return comparison.compare(runs, before, after, special)


@contextmanager
def _scratch() -> Iterator[Path]:
    with TemporaryDirectory(prefix="trainwright-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()
