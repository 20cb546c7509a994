"""The Grafana dashboard that comes with the chart: off by default, valid, about series there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from helm_chart import CHART, IMAGE, ROOT, objects

DASHBOARD: dict[str, Any] = json.loads((CHART / "dashboards/training.json").read_text())
SCHEMA = json.loads(Path(__file__).with_name("dashboard.schema.json").read_text())
SERIES = re.compile(r"\btrainwright_\w+")


def _expressions() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    notes = [note["expr"] for note in DASHBOARD["annotations"]["list"]]
    variables = [
        v["query"]["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"
    ]
    return panels + notes + variables


def test_it_is_what_grafana_reads() -> None:
    assert [
        str(error) for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(DASHBOARD)
    ] == []


def test_ids_are_unique_and_panels_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells: list[tuple[int, int]] = []
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells += [(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])]
    assert len(set(cells)) == len(cells)


def test_every_series_is_a_documented_one() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    documented = set(re.findall(r"^\| `(trainwright_\w+)`", page, re.MULTILINE))
    used = {name for text in _expressions() for name in SERIES.findall(text)}
    parts = ("", "_sum", "_count", "_bucket")
    known = {f"{name}{part}" for name in documented for part in parts}
    assert used <= known
    shown = {name for name in documented if any(f"{name}{part}" in used for part in parts)}
    assert shown == documented


@pytest.mark.parametrize("text", _expressions())
def test_expressions_are_balanced_and_know_their_variables(text: str) -> None:
    depth = 0
    for letter in re.sub(r'"[^"]*"', '""', text):
        depth += (letter in "([{") - (letter in ")]}")
        assert depth >= 0
    assert depth == 0
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$(\w+)", text)) - {"__rate_interval", "__interval"}
    assert used <= names


def test_it_is_off_by_default_and_a_configmap_that_the_sidecar_finds() -> None:
    values = {"image": IMAGE}
    assert not [item for item in objects(values) if item["kind"] == "ConfigMap"]
    (found,) = (
        item
        for item in objects(values | {"dashboard": {"enabled": True}})
        if item["kind"] == "ConfigMap"
    )
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["trainwright-training.json"]) == DASHBOARD
