"""No text that others write takes longer than its length: neither to search nor to refuse.

Every pattern of both distributions is found in their sources, and pumped by `backtracking`.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from backtracking import growth, is_linear
from trainwright.findings import credentials
from trainwright_runtime.failures import causes

ROOT = Path(__file__).parents[1]
METHODS = {"search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
_FLAGS_AT = {"compile": 1, "sub": 4, "subn": 4, "split": 3}  # else 2

# Put together when they run: of escaped names between patterns like those of the same file, or of
# what only this repository writes. A pattern of a CRD is its author's, and read by RE2 and by Rust's
# `regex`, which are linear.
ASSEMBLED = {
    "datatypes/pointer.py": "patterns of pointers in our sources",
    "gitops/wiring/fluxcd.py": "compiled alone, to see whether brackets are balanced",
    "importing/equivalence/form.py": "names of roles",
    "importing/kept_names.py": "names of services",
    "importing/names.py": "names of services",
    "importing/reasons.py": "patterns in our sources",
    "importing/role_names.py": "names of groups",
    "importing/services.py": "names of services",
    "importing/slurm/manifest.py": "names of variables",
    "manifests/webhooks.py": "names of fields",
    "plan/alike.py": "names of jobs and runs",
    "objects/pods/flags.py": "one of two quotes",
    "rules/roles.py": "names of pods",
    "objects/pods/launchers.py": "names of options",
    "objects/pods/mounted.py": "paths of mounts",
    "rehearsal/names.py": "names of pods",
    "rehearsal/volumes.py": "paths of mounts",
    "rules/resources.py": "patterns of a table in the same file",
    "rules/tuning.py": "patterns of a table in the same file",
    "specs/engine_files.py": "patterns of a table in the same file",
    "documents/validation/schema_errors.py": "patterns of our schemas, see tests/schemas/test_patterns.py",
    "plan/upgrade/comparison.py": "names of jobs",
    "trainwright_runtime/failures/causes.py": "the causes, which are pumped below",
    "trainwright_runtime/observe/credentials/__init__.py": "the forms, which are pumped below",
}


@dataclass(frozen=True)
class Written:
    """A pattern in a source: where, and the methods that it is used by."""

    where: str
    source: str
    flags: int
    ways: tuple[str, ...]


def _written(path: Path, root: Path) -> Iterator[Written | str]:
    tree = ast.parse(path.read_text())
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    used = _used(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and _of_re(node.func)):
            continue
        assert isinstance(node.func, ast.Attribute)
        method = node.func.attr
        where = f"{path.relative_to(ROOT)}:{node.lineno}"
        flags = [*node.args[_FLAGS_AT.get(method, 2) :][:1]] + [k.value for k in node.keywords if k.arg == "flags"]  # fmt: skip
        try:
            source, flag = (_evaluated(one, path, root) for one in (node.args[0], *(flags[:1] or [ast.Constant(0)])))  # fmt: skip
        except NameError:
            yield where
            continue
        ways = {method}
        if method == "compile":
            ways = used.get(
                _name(node, parents), {"fullmatch" if _is_form(parents[node]) else "search"}
            )
        yield Written(where, source, int(flag), tuple(sorted(ways)))


def _of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in METHODS | {"compile"}
    )


def _is_form(node: ast.AST) -> bool:
    """Whether a pattern is that of a `Form` or a `Spelled`, which take nothing but whole words."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Form", "Spelled")


def _evaluated(node: ast.expr, path: Path, root: Path) -> Any:
    """An expression of a module; only what has names needs the module."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        return eval(ast.unparse(node), dict(vars(importlib.import_module(module))))


def _used(tree: ast.AST) -> dict[str, set[str]]:
    """The methods by which a module uses what it has by a name, or gets by calling it."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            holder = node.value.func if isinstance(node.value, ast.Call) else node.value
            name = getattr(holder, "id", getattr(holder, "attr", ""))
            used.setdefault(name, set()).add(node.attr)
    for loop in [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]:
        one = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
        names = {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)}
        for name in names:  # the methods of each item are those of a table of patterns
            used.setdefault(name, set()).update(used.get(getattr(one, "id", ""), ()))
    return {name: ways for name, ways in used.items() if ways}


def _name(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """What a compiled pattern is assigned to, or the function that returns it."""
    while not isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.Module):
        node = parents[node]
    target = node.targets[0] if isinstance(node, ast.Assign) else node
    return getattr(
        target, "id", getattr(target, "name", getattr(getattr(target, "target", None), "id", ""))
    )


@cache
def _all() -> tuple[list[Written], list[str]]:
    found: list[Written] = []
    assembled: list[str] = []
    for distribution in ("generator", "editor", "runtime"):
        root = ROOT / distribution / "src"
        for path in sorted(root.rglob("*.py")):
            for one in _written(path, root):
                if isinstance(one, Written):
                    found.append(one)
                else:
                    assembled.append(one)
    for form in credentials._FORMS:
        found.append(Written(form.kind, credentials._compiled(form).pattern, 0, ("finditer",)))
    for cause in causes.CAUSES:
        if cause.pattern:
            found.append(Written(cause.name, cause.pattern, 0, ("search",)))
    return found, assembled


def _slow(written: Written) -> list[str]:
    compiled = re.compile(written.source, written.flags)
    grown = {way: growth(compiled, way) for way in written.ways}
    return [
        f"{written.where}: steps of {way} grow {factor:.1f} times for twice {text}: {written.source}"
        for way, (factor, text) in grown.items()
        if not is_linear(factor)
    ]


def _once(found: list[Written]) -> list[Written]:
    """Each pattern and how it is used once: the distributions have one file in common."""
    return list({(one.source, one.flags, one.ways): one for one in found}.values())


SHARDS = 2


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_pattern_takes_longer_than_its_text_is(shard: int) -> None:
    found, _ = _all()
    assert len(found) > 300
    slow = [line for one in _once(found)[shard::SHARDS] for line in _slow(one)]
    assert not slow, "\n".join(slow)


def test_patterns_that_are_put_together_are_known() -> None:
    _, assembled = _all()
    files = {one.rpartition(":")[0] for one in assembled}
    assert not [file for file in files if not any(file.endswith(known) for known in ASSEMBLED)]


@pytest.mark.parametrize(
    ("pattern", "way", "linear"),
    [
        (r"a*b", "match", True),
        (r"a*b", "search", False),
        (r"(?<!a)a*b", "search", True),
        (r"\s+$", "sub", False),
        pytest.param(r"(a+)+", "fullmatch", False, marks=pytest.mark.slow),
        (r"[^ ]*/[^ ]*/x", "fullmatch", False),
        (r"(?:x|y)(?:ab)*+c", "match", True),
        (r"\$\{\{(?:[^\n]*?\}\})?", "finditer", False),
        (r"[a-z]{1,200}@", "search", True),
        (r"(?:ab?){1,200}c", "search", True),
        (r"a{1,9000}b", "search", False),
        (r"(a)?(?(1)a*|b)c", "search", False),
        (r"(?=a*b)a", "search", False),
        (r"x(?:a+-b+-)*y", "search", True),
        (r"(?:a+-b+-)*y", "search", False),
        (r"(?P<q>['\"]).*?(?P=q)", "search", True),
        (r"(?P<q>['\"]).*?(?P=q)x", "search", False),
        (r"a-[\s\S]*?(?:-b|\Z)", "finditer", True),
        (r"a-[\s\S]*?-b", "finditer", False),
    ],
)
def test_the_steps_tell_patterns_apart(pattern: str, way: str, linear: bool) -> None:
    assert is_linear(growth(re.compile(pattern), way)[0]) is linear
