"""A workload kind is its folder, its chart templates, its schema and a line of the registry.

So one that is taken out leaves a product that works, and one can be added from outside.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainwright.kinds import KINDS, SERVED, TARGETS
from trainwright.kinds.health import Health
from trainwright.kinds.kind import Kind
from trainwright.kinds.reading import Reader
from trainwright.kinds.state import Status
from trainwright.kinds.target import Target
from trainwright.objects.edit import Edit
from trainwright.objects.rule import Rule
from trainwright.objects.transition import Transition
from trainwright.pods.pod import Operator

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "generator/src/trainwright"
GOLDEN = ROOT / "tests/golden"
NAMES = [kind.name for kind in KINDS.values()]
REGISTRY = "kinds/__init__.py"


def _kind(name: str) -> Kind:
    return TARGETS[name].of


# --- what a folder has ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_has_its_parts(name: str) -> None:
    kind = _kind(name)
    assert KINDS[kind.group, kind.kind] is kind
    assert isinstance(kind.target, Target)
    assert isinstance(kind.operator, Operator)
    assert isinstance(kind.reader, Reader)
    assert kind.group_kind in kind.templates


@pytest.mark.parametrize("kind", SERVED.values(), ids=str)
def test_every_kind_of_a_cluster_has_the_rest(kind: Kind) -> None:
    assert isinstance(kind.status, Status)
    assert isinstance(kind.health, Health)
    assert kind.rules
    assert all(isinstance(rule, Rule) for rule in kind.rules)
    assert kind.edits
    assert all(isinstance(edit, Edit) for edit in kind.edits)
    assert all(isinstance(transition, Transition) for transition in kind.transitions)
    assert all(known in kind.templates for known in kind.defaults)


# --- where it is spelled -------------------------------------------------------------------------

# What is known of a kind elsewhere: Kubeflow Trainer makes JobSets, whose labels its pods have, and
# is what a PyTorchJob moves to. Two command lines are read as the kind that comes nearest.
ELSEWHERE = {
    "jobset": ("kinds/trainjob/", "kinds/labels.py", "kinds/indexed_pods.py"),
    "pytorchjob": ("kinds/trainjob/", "importing/elasticdl.py"),
    "compose": ("importing/docker.py",),
}
# Conditions on targets in templates of them all: true or idle once the target is gone.
CONDITIONS = {
    "NOTES.txt",
    "_names.tpl",
    "configmap.yaml",
    "networkpolicy.yaml",
    "persistentvolumeclaim.yaml",
    "podgroup.yaml",
    "podmonitor.yaml",
}


def _spelled(kind: Kind) -> re.Pattern[str]:
    if kind.name in ("job", "compose"):  # words of everything here: only what no other thing has
        return re.compile(rf"{kind.api_version}|kinds\.{kind.name}\b")
    return re.compile(kind.name, re.IGNORECASE)


def _code(path: Path) -> Iterator[str]:
    """The names and the strings of a module that are not for people: prose and sources have spaces.

    A source is where a fact was read: a repository, with a version or a path below `pkg`.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for field in ("id", "attr", "name", "arg", "asname", "module"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _for_code(node.value):
            yield node.value


def _for_code(text: str) -> bool:
    return not re.search(r"\s|@v\d|:[\w-]+/pkg/", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_is_spelled_in_its_folder_and_in_the_registry_alone(name: str) -> None:
    spelled = _spelled(_kind(name))
    allowed = (f"kinds/{name}/", REGISTRY, *ELSEWHERE.get(name, ()))
    found = {
        f"{inside}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not (inside := path.relative_to(SOURCE).as_posix()).startswith(allowed)
        for text in _code(path)
        if spelled.search(text)
    }
    assert found == set()


@pytest.mark.parametrize("name", NAMES)
def test_data_of_everything_names_no_kind(name: str) -> None:
    spelled = _spelled(_kind(name))
    for path in (*SOURCE.rglob("*.lua"), *SOURCE.rglob("rbac/*.yaml")):
        inside = path.relative_to(SOURCE).as_posix()
        code = re.sub(r"^\s*(#|--).*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert inside.startswith(f"kinds/{name}/") or not spelled.search(code), inside


def test_templates_of_every_target_name_those_that_differ() -> None:
    named = re.compile("|".join(rf"[\"']{name}[\"']" for name in NAMES if name != "job"))
    shared = [path for path in (ROOT / "chart/templates").iterdir() if _owner(path) not in TARGETS]
    assert {p.name for p in shared if named.search(p.read_text(encoding="utf-8"))} == CONDITIONS


def _owner(path: Path) -> str:
    return path.stem.removeprefix("_").split("-")[0]


# --- taking one out ------------------------------------------------------------------------------


def _package(folder: Path) -> Path:
    package = folder / "trainwright"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def _registered(package: Path, change: tuple[str, str]) -> None:
    registry = package / REGISTRY
    text = registry.read_text(encoding="utf-8")
    assert text.count(change[0]) == 1
    registry.write_text(text.replace(*change), encoding="utf-8")


def _enumerated(package: Path, target: str, *, there: bool, like: str = "pytorchjob") -> None:
    """Put a target into the two schemas of what people write, or take it out."""
    path = package / "schemas/job.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    names = schema["$defs"]["fields"]["properties"]["target"]["enum"]
    names.append(target) if there else names.remove(target)
    path.write_text(json.dumps(schema), encoding="utf-8")
    path = package / "schemas/environment.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    options = _holder(schema, like)
    if there:
        options[target] = {"type": "object", "additionalProperties": False}
    else:
        del options[target]
    path.write_text(json.dumps(schema), encoding="utf-8")


def _holder(schema: object, key: str) -> dict[str, object]:
    """The mapping in a schema that has a key of this name."""
    if isinstance(schema, dict):
        if key in schema:
            return schema
        for value in schema.values():
            if found := _holder(value, key):
                return found
    return {}


def _without(kind: Kind, folder: Path) -> Path:
    """A copy of the package in which a kind never was."""
    package = _package(folder)
    _registered(package, (f'    "{kind.name}",\n', ""))
    shutil.rmtree(package / "kinds" / kind.name)
    (package / f"schemas/kinds/{kind.kind.lower()}.schema.json").unlink()
    _enumerated(package, kind.name, there=False, like=kind.name)
    for path in (package / "chart/templates").iterdir():
        if _owner(path) == kind.name:
            path.unlink()
    return package


def _run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the package instead of the one that is installed."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _command(package: Path, *arguments: str) -> str:
    done = _run(package, "-m", "trainwright", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# The default target cannot go, nor what a command line is read as: `elasticdl train`, `docker run`.
REMOVABLE = [name for name in NAMES if name not in ("pytorchjob", "compose")]
IMPORTS = """\
import importlib, pkgutil, trainwright
for module in pkgutil.walk_packages(trainwright.__path__, "trainwright."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(trainwright.__path__[0])
"""


@pytest.fixture(scope="module", params=REMOVABLE)
def reduced(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Kind, Path]:
    """A kind, and the package without it."""
    kind = _kind(request.param)
    return kind, _without(kind, tmp_path_factory.mktemp(kind.name))


def _others(name: str) -> list[Path]:
    """A golden case of each other target, and one with a queue."""
    cases = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
    first = {path.name.split("-")[0]: path for path in reversed(cases)}
    queued = {path.name.split("-")[0]: path for path in cases if "kueue" in path.name}
    return [path for by in (first, queued) for target, path in sorted(by.items()) if target != name]


@pytest.mark.slow
def test_every_other_module_is_imported(reduced: tuple[Kind, Path]) -> None:
    _, package = reduced
    done = _run(package, "-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(package)


@pytest.mark.slow
def test_the_product_does_without_it(reduced: tuple[Kind, Path], tmp_path: Path) -> None:
    kind, package = reduced
    assert "Usage" in _command(package, "--help")
    listed = _command(package, "list", "targets").splitlines()
    assert [line.split()[0] for line in listed[1:]] == [n for n in NAMES if n != kind.name]
    for case in _others(kind.name):
        shutil.copytree(case / "input", tmp_path / case.name / "environments")
        _command(package, "-C", str(tmp_path / case.name), "render", "--no-cache")
        rendered = sorted((case / "expected").rglob("*.yaml"))
        for path in rendered:
            there = tmp_path / case.name / "environments" / path.relative_to(case / "expected")
            assert there.read_bytes() == path.read_bytes(), path
        _command(package, "check", "--manifests", *map(str, _objects(rendered)))


def _objects(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.name not in ("values.yaml", "compose.yaml")]
