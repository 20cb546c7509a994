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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.documents.validation.schema import contract
from trainwright.kinds import DEFAULT, KINDS, SERVED, TARGETS
from trainwright.kinds.health import Health
from trainwright.kinds.kind import Kind
from trainwright.kinds.reading import Reader
from trainwright.kinds.state import Status
from trainwright.kinds.target import Target
from trainwright.objects.pods.pod import Operator
from trainwright.rule_model.edit import EditRule
from trainwright.rule_model.edit_row import EditRow
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.upstream import table

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
    assert all(isinstance(edit, EditRow) for edit in kind.edits)
    assert all(isinstance(rule, EditRule) for rule in kind.edit_rules)
    assert all(known in kind.templates for known in kind.defaults)


def test_the_default_target_is_the_first_kind() -> None:
    fields = contract("job.schema.json")["$defs"]["fields"]["properties"]
    assert fields["target"]["default"] == DEFAULT


# --- where it is spelled -------------------------------------------------------------------------

# What is known of a kind elsewhere: Kubeflow Trainer makes JobSets, whose labels its pods have, and
# is what a PyTorchJob moves to. Two command lines are read as the kind that comes nearest.
ELSEWHERE = {
    "jobset": ("kinds/trainjob/", "kinds/labels.py", "kinds/indexed_pods.py"),
    "pytorchjob": (
        "kinds/trainjob/",
        "kinds/adopted/",
        "importing/elasticdl.py",
        "importing/foreign.py",
        "importing/slurm/manifest.py",
    ),
    "compose": ("importing/docker.py",),
    "trainjob": ("kinds/jobset/target.py",),
}
# Conditions on targets in templates of them all: true or idle once the target is gone.
CONDITIONS = {
    "NOTES.txt",
    "_names.tpl",
    "configmap.yaml",
    "dashboard.yaml",
    "networkpolicy.yaml",
    "persistentvolumeclaim.yaml",
    "podgroup.yaml",
    "podmonitor.yaml",
}


def _spelled(kind: Kind) -> re.Pattern[str]:
    if kind.name in ("job", "compose"):  # words of everything here: only what no other thing has
        return re.compile(rf"{kind.api_version}|kinds\.{kind.name}\b")
    return re.compile(kind.name, re.IGNORECASE)


@cache
def _code(path: Path) -> frozenset[str]:
    """The names and the strings of a module that are not for people: prose and sources have spaces.

    A source is where a fact was read: a row of the table of upstream behaviour, or a repository with
    a path below `pkg`.
    """
    return frozenset(_words(path))


def _words(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for field in ("id", "attr", "name", "arg", "asname", "module"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _for_code(node.value):
            yield node.value


def _for_code(text: str) -> bool:
    return text not in table() and not re.search(r"\s|:[\w-]+/pkg/", text)


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


def test_the_guide_names_every_place() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = guide.split("## Add a kind\n")[1].split("\n## ")[0]
    places = re.findall(r"^\d\. (.*)$", section, re.MULTILINE)
    assert len(places) <= 8
    named = {path for place in places for path in re.findall(r"`([\w./<>]+/[\w./<>]*)`", place)}
    assert "generator/src/trainwright/kinds/<kind>/" in named
    for name in NAMES:
        served = name in {kind.name for kind in SERVED.values()}
        for path in named:
            inside = (ROOT / path.partition("/")[0]).is_dir()  # and not a path below the package
            if inside and (served or "states/" not in path):
                assert (ROOT / path.replace("<kind>", name)).exists(), path


# --- taking one out ------------------------------------------------------------------------------


def _package(folder: Path) -> Path:
    """A copy, with what is compiled of it: each process over it imports hundreds of modules."""
    return shutil.copytree(SOURCE, folder / "trainwright")


def _registered(package: Path, change: tuple[str, str]) -> None:
    registry = package / REGISTRY
    text = registry.read_text(encoding="utf-8")
    assert text.count(change[0]) == 1
    registry.write_text(text.replace(*change), encoding="utf-8")


@contextmanager
def _schema(path: Path) -> Iterator[Any]:
    """A schema that is written again with whatever has been changed in it."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    yield schema
    path.write_text(json.dumps(schema), encoding="utf-8")


def _targets(package: Path, change: Callable[[list[str], dict[str, Any]], None]) -> None:
    """Change the list of targets, and their options, in the schemas of what people write."""
    with (
        _schema(package / "schemas/job.schema.json") as job,
        _schema(package / "schemas/environment.schema.json") as environment,
        _schema(package / "chart/values.schema.json") as values,
    ):
        options = _holder(environment, "pytorchjob")
        change(job["$defs"]["fields"]["properties"]["target"]["enum"], options)
        change(values["properties"]["target"]["enum"], {})


def _holder(schema: object, key: str) -> dict[str, Any]:
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

    def forget(names: list[str], options: dict[str, Any]) -> None:
        names.remove(kind.name)
        options.pop(kind.name, None)

    _targets(package, forget)
    for path in (package / "chart/templates").iterdir():
        if _owner(path) == kind.name:
            path.unlink()
    return package


def _run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the package instead of the one that is installed."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
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
RENDER = """\
import sys
from trainwright.cli import main
for root in sys.argv[1:]:
    if code := main(["-C", root, "render", "--no-cache"], standalone_mode=False):
        sys.exit(code)
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
    others = [other for other in NAMES if other != name]
    chosen = [by[other] for by in (first, queued) for other in others if other in by]
    return list(dict.fromkeys(chosen))


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
    cases = _others(kind.name)
    for case in cases:
        shutil.copytree(case / "input", tmp_path / case.name / "environments")
    done = _run(package, "-c", RENDER, *(str(tmp_path / case.name) for case in cases))
    assert done.returncode == 0, done.stdout + done.stderr
    rendered = sorted(path for case in cases for path in (case / "expected").rglob("*.yaml"))
    for path in rendered:
        case, _, *inside = path.relative_to(GOLDEN).parts
        there = tmp_path.joinpath(case, "environments", *inside)
        assert there.read_bytes() == path.read_bytes(), path
    given = [str(path) for path in _objects(rendered)]
    checks = [_run(each, "-m", "trainwright", "validate", *given) for each in (SOURCE, package)]
    assert len({(done.returncode, done.stdout, done.stderr) for done in checks}) == 1


def _objects(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.name not in ("values.yaml", "compose.yaml")]


OTHER_TESTS = (
    *("rules/test_edges.py", "rules/test_edits.py", "rules/test_edit_rules.py"),
    *("test_golden.py", "test_operators.py", "test_targets.py"),
    *("cluster/test_states.py", "wiring/test_health.py"),
)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jobset", "jobset"),
        pytest.param("trainingjob", "trainingjob lattice custom-image", marks=pytest.mark.nightly),
    ],
)
def test_tests_of_the_others_pass_without_it(name: str, words: str, tmp_path: Path) -> None:
    here = Path(__file__).parent
    package = _without(_kind(name), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "about_kind", "-p", "no:cacheprovider"]
        + ["-m", "not slow", *(str(here / file) for file in OTHER_TESTS)],
        env={
            **os.environ,
            "ABOUT_KIND": words,
            "PYTHONPATH": f"{package.parent}{os.pathsep}{here}",
        },
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 500  # type: ignore[index]


# --- adding one from outside ---------------------------------------------------------------------

TOY = Path(__file__).parent / "toy_kind"
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {toy: {}}
gitops: {engine: argocd, repository: {url: "https://git.example.com/a.git"}}
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: blocks
target: toy
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
nodes: 2
"""
STATE = """\
import sys, yaml
from trainwright.kinds import KINDS
body = yaml.safe_load(open(sys.argv[1]))
state = KINDS["toys.example.com", "Toy"].status.state_of({**body, "status": {"ready": 1}})
print(state.phase, state.ready, state.total)
"""


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with a kind more: its folder, template and schema, and its lines."""
    package = _package(tmp_path_factory.mktemp("toys"))
    shutil.copytree(TOY, package, dirs_exist_ok=True)
    _registered(package, ('    "compose",\n', '    "compose",\n    "toy",\n'))

    def add(names: list[str], options: dict[str, Any]) -> None:
        names.append("toy")
        options["toy"] = {"type": "object", "additionalProperties": False, "properties": {}}

    _targets(package, add)
    return package


@pytest.mark.slow
def test_a_kind_is_added_from_outside(toys: Path, tmp_path: Path) -> None:
    environments = tmp_path / "environments"
    (environments / "play/jobs").mkdir(parents=True)
    (environments / "play/environment.yaml").write_text(ENVIRONMENT, encoding="utf-8")
    (environments / "play/jobs/blocks.yaml").write_text(JOB, encoding="utf-8")
    root = ("-C", str(tmp_path))
    assert _command(toys, "list", "targets").splitlines()[-1].split()[:2] == ["toy", "Toy"]

    _command(toys, *root, "render")
    (written,) = environments.glob("play/rendered/blocks/toy.yaml")
    body = yaml.safe_load(written.read_text(encoding="utf-8"))
    assert body["kind"] == "Toy"
    assert body["spec"]["size"] == 2

    _command(toys, "validate", str(written))
    red = tmp_path / "red.yaml"
    red.write_text(yaml.safe_dump({**body, "spec": {**body["spec"], "color": "red"}}))
    done = _run(toys, "-m", "trainwright", "validate", str(red))
    assert done.returncode == 1
    assert "the toy is red" in done.stdout + done.stderr

    assert _run(toys, "-c", STATE, str(written)).stdout.split() == ["running", "1", "2"]
    imported = _command(toys, *root, "import", str(written), "--env", "play", "--dry-run")
    assert yaml.safe_load(imported)["nodes"] == 2  # its target is the only one there
    assert "resources: [toys]" in _command(toys, "status", "--print-rbac", "read")
    wired = _command(toys, *root, "gitops", "wire", "play", "--out", str(tmp_path / "wiring"))
    settings = (tmp_path / "wiring/argocd-cm.yaml").read_text(encoding="utf-8")
    assert "health.toys.example.com_Toy" in settings, wired
