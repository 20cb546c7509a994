"""The parts of Argo CD and Flux that read objects: Lua in Argo's sandbox, CEL in Flux's order."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cel
import helm_python
import jq
import lupa.lua51
import yaml

from trainwright.kinds.health import Health

# Argo CD runs gopher-lua, which is Lua 5.1, and opens package, base, table and a part of os.
# https://github.com/argoproj/argo-cd/blob/v3.5.1/util/lua/lua.go
_NOT_OPENED = ("coroutine", "debug", "io", "math", "string", "bit", "jit", "ffi", "python")
_CLOSE = f"""
getmetatable("").__index = nil
for _, name in ipairs({{{", ".join(f'"{name}"' for name in _NOT_OPENED)}}}) do
  _G[name] = nil
  package.loaded[name] = nil
end
os = {{time = os.time, date = os.date}}
package.loadlib, package.path, package.cpath = nil, "", ""
"""


def run_lua(script: str, obj: dict[str, Any]) -> Any:
    """What a script returns for the global `obj`, as plain data."""
    runtime = lupa.lua51.LuaRuntime(  # type: ignore[attr-defined]
        register_eval=False, register_builtins=False, unpack_returned_tuples=True
    )
    runtime.execute(_CLOSE)
    runtime.globals().obj = _to_lua(runtime, obj)
    return _plain(runtime.execute(script))


def _to_lua(runtime: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return runtime.table_from({key: _to_lua(runtime, item) for key, item in value.items()})
    if isinstance(value, list):
        return runtime.table_from([_to_lua(runtime, item) for item in value])
    return value


def _plain(value: Any) -> Any:
    if lupa.lua51.lua_type(value) != "table":  # type: ignore[attr-defined]
        return value
    pairs = {key: _plain(item) for key, item in value.items()}
    # Argo cannot tell an empty table from an empty list either.
    return list(pairs.values()) if set(pairs) == set(range(1, len(pairs) + 1)) else pairs


def flux_status(expressions: Health, obj: dict[str, Any]) -> str:
    """inProgress, failed, current, or unknown when an expression cannot be evaluated.

    https://github.com/fluxcd/pkg/blob/main/runtime/cel/status_evaluator.go
    """
    observed = (obj.get("status") or {}).get("observedGeneration")
    if isinstance(observed, int) and observed != obj["metadata"].get("generation", observed):
        return "inProgress"
    for status, expression in (
        ("inProgress", expressions.in_progress),
        ("failed", expressions.failed),
        ("current", expressions.current),
    ):
        try:
            holds = cel.evaluate(expression, copy.deepcopy(obj))
        except (RuntimeError, KeyError, TypeError, ValueError):
            return "unknown"
        assert isinstance(holds, bool), expression
        if holds:
            return status
    return "inProgress"


def without(expressions: list[str], obj: dict[str, Any]) -> dict[str, Any]:
    """An object as Argo CD compares it, with what jqPathExpressions point at taken out."""
    for expression in expressions:
        # https://github.com/argoproj/argo-cd/blob/v3.5.1/util/argo/normalizers/diff_normalizer.go
        obj = jq.compile(f"del({expression})").input_value(obj).first()
    return obj


# --- what an ApplicationSet makes ------------------------------------------------------------------

_WORDS = re.compile(r"{{.*?}}", re.DOTALL)
_FIELD = re.compile(r"(?<![\w)\"$])\.([a-zA-Z][\w.]*)")


def applications(applicationset: dict[str, Any], repository: Path) -> list[dict[str, Any]]:
    """The Applications that a controller makes of a folder: generator, post selector, template.

    The template is Go's with sprig, as Helm has it, in which a missing key is an error.
    https://github.com/argoproj/argo-cd/blob/v3.5.1/applicationset/generators/git.go
    """
    spec = applicationset["spec"]
    assert spec["goTemplateOptions"] == ["missingkey=error"]
    (generator,) = spec["generators"]
    (files,) = generator["git"]["files"]
    found = []
    for path in sorted(repository.glob(files["path"])):
        folder = path.parent.relative_to(repository).as_posix()
        read = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
        parameters = {**read, "path": {"path": folder, "basename": path.parent.name}}
        if _selects(generator.get("selector", {}), parameters):
            found.append(_bare(_filled(spec["template"], parameters)))
    return found


def _selects(selector: dict[str, Any], parameters: dict[str, Any]) -> bool:
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In"
        if parameters.get(expression["key"]) not in expression["values"]:
            return False
    return True


def _filled(template: Any, parameters: dict[str, Any]) -> Any:
    texts: list[str] = sorted({text for text in _strings(template) if "{{" in text})
    for text in texts:
        for action in _WORDS.findall(text):
            for field in _FIELD.findall(re.sub(r'"[^"]*"', '""', action)):
                value: Any = parameters
                for key in field.split("."):
                    value = value[key]
    with TemporaryDirectory() as folder:
        chart = Path(folder) / "chart"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 0.0.0\n")
        for number, text in enumerate(texts):
            body = f"{{{{with .Values.parameters}}}}text: {text}{{{{end}}}}"
            (chart / f"templates/{number}.yaml").write_text(body)
        rendered = helm_python.Chart.load(chart).render({"parameters": parameters})
    results = {
        text: rendered.get(f"a/templates/{number}.yaml", "").removeprefix("text:").strip()
        for number, text in enumerate(texts)
    }
    return _replaced(template, results)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _replaced(value: Any, results: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, results) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, results) for item in value]
    return results.get(value, value)


def _bare(value: Any) -> Any:
    """Without empty strings, which Go's structs leave out."""
    if isinstance(value, dict):
        return {key: _bare(item) for key, item in value.items() if item != ""}
    return [_bare(item) for item in value] if isinstance(value, list) else value
