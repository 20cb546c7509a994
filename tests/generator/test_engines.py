"""The embedded engine: what it spares Helm."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.documents import yamlio
from trainwright.documents.validation import schema
from trainwright.documents.yamlio import Block
from trainwright.helm.engines import Embedded

CHART = Path(__file__).resolve().parents[2] / "chart"


def test_values_with_texts_of_several_lines_are_valid_without_helm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Helm compiles the chart's schema anew at each render, which takes five times as long."""
    (values,) = yamlio.load_rendered((CHART / "ci/compose.yaml").read_text(encoding="utf-8"))
    assert schema.chart_values().accepts(values)
    files = {
        path: {**file, "content": Block(file["content"])} for path, file in values["files"].items()
    }
    monkeypatch.setattr(Embedded, "_whole", None)
    texts = Embedded().render({**values, "files": files}, "a", "b")
    assert texts == Embedded().render(values, "a", "b")


@pytest.mark.parametrize("path", sorted((CHART / "ci").glob("*.yaml")), ids=lambda path: path.stem)
def test_helm_makes_the_same_of_the_same_values_each_time(path: Path) -> None:
    """As the tests take for granted that render much (remembered_engine.py)."""
    (values,) = yamlio.load_rendered(path.read_text(encoding="utf-8"))
    engine = Embedded()
    texts = engine.render(values, "a", "b")
    assert texts
    assert [engine.render(values, "a", "b"), Embedded().render(values, "a", "b")] == [texts] * 2
