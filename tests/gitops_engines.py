"""The parts of Argo CD and Flux that read objects: Lua in Argo's sandbox, CEL in Flux's order."""

from __future__ import annotations

import copy
from typing import Any

import cel
import jq
import lupa.lua51

from trainwright.wiring.health import Expressions

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


def flux_status(expressions: Expressions, obj: dict[str, Any]) -> str:
    """inProgress, failed, current, or unknown when an expression cannot be evaluated.

    https://github.com/fluxcd/pkg/blob/main/runtime/cel/status_evaluator.go
    """
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
