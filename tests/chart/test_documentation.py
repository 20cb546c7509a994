"""values.yaml, its schema, the README and the scenarios in ci/ speak of the same keys."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from helm_chart import CHART, ROOT, SCENARIOS, load
from trainwright.datatypes.data import Data

VALUES = load(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
SCRIPT = ROOT / "scripts/chart_readme.py"
# Their defaults are a pod's own fields, which Kubernetes documents.
WHOLE = {"podSecurityContext", "securityContext"}
# Fields that no Kubernetes from 1.29 on and no target has everywhere, or only Windows has.
NOT_EVERYWHERE = {
    "appArmorProfile",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
    "windowsOptions",
    "volumes.[].source.image",
}


def _documented(text: str) -> dict[str, str]:
    spec = spec_from_file_location("chart_readme", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {key: comment for _, key, comment in module.documented(text)}


def _keys(data: Data, path: str = "") -> Iterator[str]:
    """Dotted keys, as the README lists them: a map with fixed keys by its keys."""
    for key, value in data.items():
        if isinstance(value, dict) and value and key not in WHOLE:
            yield from _keys(value, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def _resolved(schema: Any) -> Any:
    """The schema without indirection through definitions."""
    if "$ref" in schema:
        return _resolved(SCHEMA["definitions"][schema["$ref"].removeprefix("#/definitions/")])
    merged = dict(schema)
    for part in schema.get("allOf", ()):
        merged = {**_resolved(part), **merged}
    return merged


def _fields(schema: Any, path: str = "") -> Iterator[str]:
    """Every field that has a name of its own, lists written as []."""
    schema = _resolved(schema)
    for key, child in schema.get("properties", {}).items():
        yield f"{path}{key}"
        yield from _fields(child, f"{path}{key}.")
    if isinstance(schema.get("items"), dict) and path and schema.get("type") == "array":
        yield from _fields(schema["items"], f"{path}[].")


def _used(data: Data, path: str = "") -> Iterator[str]:
    for key, value in data.items():
        yield f"{path}{key}"
        yield from _inside(value, f"{path}{key}.")


def _inside(value: Data, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _used(value, path)
    for item in value if isinstance(value, list) else ():
        yield from _inside(item, f"{path}[].")


def test_every_value_has_a_comment_and_every_comment_a_value() -> None:
    assert list(_documented((CHART / "values.yaml").read_text())) == list(_keys(VALUES))


def test_the_schema_says_what_the_comment_says() -> None:
    assert dict(_descriptions(_keys(VALUES))) == _documented((CHART / "values.yaml").read_text())


def _descriptions(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        schema = SCHEMA
        for part in key.split("."):
            schema = _resolved(schema)["properties"][part]
        yield key, schema["description"]


def test_the_schema_has_the_keys_of_the_values_and_no_others() -> None:
    assert set(SCHEMA["properties"]) == {*VALUES, "global"}
    for key, value in VALUES.items():
        if isinstance(value, dict) and value and key not in WHOLE:
            assert set(SCHEMA["properties"][key]["properties"]) == set(value), key


def test_every_field_of_the_schema_is_described() -> None:
    bare = [path for path, schema in _described(SCHEMA, "#") if not schema.get("description")]
    assert bare == []


def _described(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    schema = _resolved(schema)
    for key, child in schema.get("properties", {}).items():
        yield f"{path}/{key}", _resolved(child)
        yield from _described(child, f"{path}/{key}")
    if schema.get("type") == "array":
        yield f"{path}/items", _resolved(schema["items"])
        yield from _described(schema["items"], f"{path}/items")


def test_the_scenarios_use_every_field() -> None:
    used = {field for path in SCENARIOS for field in _used(load(path))}
    fields = {
        f
        for f in _fields(SCHEMA)
        if NOT_EVERYWHERE.isdisjoint((f, *f.split("."))) and f != "global"
    }
    assert fields - used == set()


def test_the_readme_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first = (CHART / "README.md").read_text().splitlines()[0]
    assert "values.yaml" in first
    assert "python scripts/chart_readme.py" in first


def test_a_stale_readme_is_noticed_and_rewritten(tmp_path: Path) -> None:
    script = tmp_path / "scripts/chart_readme.py"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    (tmp_path / "chart").mkdir()
    for name in ("Chart.yaml", "values.yaml", "README.md"):
        shutil.copy(CHART / name, tmp_path / "chart" / name)
    values = tmp_path / "chart/values.yaml"
    values.write_text(values.read_text() + "# -- Something new\nadded: 1\n")
    check = [sys.executable, str(script), "--check"]
    stale = subprocess.run(check, capture_output=True, text=True, check=False)
    assert stale.returncode == 1
    assert "out of date: run python scripts/chart_readme.py" in stale.stderr
    subprocess.run([sys.executable, str(script)], check=True)
    assert "| `added` | `1` | Something new |" in (tmp_path / "chart/README.md").read_text()
    subprocess.run(check, check=True)


def test_the_readme_lists_every_key_once() -> None:
    rows = [
        line.split("`")[1]
        for line in (CHART / "README.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    assert rows == list(_keys(VALUES))
