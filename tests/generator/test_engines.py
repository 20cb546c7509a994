"""The embedded engine: what it spares Helm, with the results of the whole chart."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.datatypes.data import Data
from trainwright.datatypes.pointer import leaves
from trainwright.documents import yamlio
from trainwright.documents.validation import schema
from trainwright.documents.yamlio import Block
from trainwright.helm import own_chart
from trainwright.helm.engines import ChartRefusal, Embedded, OtherChart, Release

CHART = Path(__file__).resolve().parents[2] / "chart"
SCENARIOS = sorted((CHART / "ci").glob("*.yaml"))
NO_DASHBOARD = {"dashboard": {"enabled": False}}  # which is for who installs the chart


def _values(path: Path) -> dict[str, Data]:
    (values,) = yamlio.load_rendered(path.read_text(encoding="utf-8"))
    return values


def test_values_with_texts_of_several_lines_are_valid_without_helm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Helm compiles the chart's schema anew at each render, which takes five times as long."""
    values = _values(CHART / "ci/compose.yaml")
    assert schema.chart_values().accepts(values)
    files = {
        path: {**file, "content": Block(file["content"])} for path, file in values["files"].items()
    }
    monkeypatch.setattr(Embedded, "_whole", None)
    texts = Embedded().render({**values, "files": files}, "a", "b")
    assert texts == Embedded().render(values, "a", "b")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_helm_makes_the_same_of_the_same_values_each_time(path: Path) -> None:
    """As the tests take for granted that render much (remembered_engine.py)."""
    values = _values(path)
    engine = Embedded()
    texts = engine.render(values, "a", "b")
    assert texts
    assert [engine.render(values, "a", "b"), Embedded().render(values, "a", "b")] == [texts] * 2


def test_many_releases_at_once_are_what_the_whole_chart_makes_of_each() -> None:
    releases = [
        Release(_values(path) | NO_DASHBOARD, f"run-{number}", f"team-{number % 3}")
        for number, path in enumerate(SCENARIOS)
    ]
    whole = OtherChart(CHART)
    assert Embedded().render_all(releases) == whole.render_all(releases)


def test_no_value_is_null_where_the_chart_has_a_default() -> None:
    """Helm removes such a default, which many releases at once have already."""
    values = _values(CHART / "ci/jobset-values.yaml")
    for at, _ in leaves(own_chart.defaults()):
        below: Data = None
        for part in reversed(at.parts):
            below = {part: below}
        assert not schema.chart_values().accepts({**values, **below}), at


def test_a_release_that_the_chart_refuses_spoils_no_other() -> None:
    values = _values(CHART / "ci/jobset-values.yaml")
    patch = {"spec": {"containers": [{"tty": True}]}}
    by_schema, by_template = {**values, "nodes": "many"}, {**values, "podPatches": [patch]}
    every = [Release(it, "a", "b") for it in (values, by_schema, by_template, values)]
    first, refused, failed, last = Embedded().render_all(every)
    assert first == last == Embedded().render(values, "a", "b")
    assert isinstance(refused, ChartRefusal)
    assert "nodes" in str(refused)
    assert isinstance(failed, ChartRefusal)
    assert str(failed).endswith("podPatches: an item of containers has no name")
