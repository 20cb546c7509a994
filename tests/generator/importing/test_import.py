"""Manifests and command lines that people have, as specs, with every value accounted for.

A case is a folder of `examples/`: what is imported, beside `expected/` with the specs and what is
said of them. `pytest --update-golden` rewrites the expectations; the review is the git diff.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import yaml

from normal_forms import normal_form
from repository import Repository
from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import lookup, scalars
from trainwright.documents import yamlio
from trainwright.files.tree import Folder
from trainwright.findings import credentials
from trainwright.importing import ImportInput, accounting, equivalence, text
from trainwright.importing.accounting import Account
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.importing.convert import Imported
from trainwright.importing.equivalence import NormalForm
from trainwright.importing.equivalence.comparison import values
from trainwright.importing.trial import ImportContext
from trainwright.kinds import TARGETS
from trainwright.manifests import reading

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXAMPLES = sorted(path.name for path in (HERE / "examples").iterdir())
# Where a case is imported to, when that is not the environment that has everything.
ELSEWHERE = {"pytorchjob-in-a-volcano-gang": "volcano"}
# What a cluster has would begin another run.
NEW_RUNS = {"job-as-kubectl-gets-it", "pytorchjob-shell-line"}
ENTRYPOINTS = {"pytorchjob-image-entrypoint": ("python", "-u", "train.py")}


def _inputs(case: str) -> list[Path]:
    return [path for path in sorted((HERE / "examples" / case).iterdir()) if path.is_file()]


@cache
def _found(case: str) -> ImportInput:
    found = ImportInput()
    found.files(tuple(str(path) for path in _inputs(case)))
    return found


@cache
def _imported(case: str) -> tuple[tuple[Imported, ...], tuple[str, ...]]:
    environment = ELSEWHERE.get(case, "lab")
    options = ImportOptions(
        environment=environment,
        write=False,
        entrypoint=ENTRYPOINTS.get(case, ()),
        new_runs=case in NEW_RUNS,
    )
    done = run(HERE, _found(case), options)
    return done.imported, done.problems


def _place(case: str, imported: Imported) -> ImportContext:
    runtimes = tuple(m for m in imported.source.manifests() if m.kind.endswith("Runtime"))
    return ImportContext(Folder(HERE), ELSEWHERE.get(case, "lab"), runtimes)


def _report(case: str) -> str:
    """Everything that is said of a case, with paths as they are below its folder."""
    imported, problems = _imported(case)
    found = _found(case)
    lines = [line for one in imported for line in text.report(one, lambda words, _: words)]
    lines += text.refusals(found, problems, lambda words, _: words)
    message = "".join(f"{line}\n" for line in lines)
    return re.sub(rf"[^\s:(]*/?examples/{case}/|environments/\w+/jobs/", "", message)


# One of each kind, and what is special about importing at all; the others are slow.
USUAL = {
    "compose-one-gpu",
    "docker-run-transformers",
    "elasticdl-train-mnist",
    "job-indexed-with-a-service",
    "jobset-torchrun-cifar",
    "pytorchjob-mnist-gloo",
    "rayjob-of-equal-nodes",
    "trainingjob-fixed-size",
    "trainjob-2-3-with-its-runtime",
}


def _of(case: str, *more: object) -> object:
    marks = [] if case in USUAL else [pytest.mark.slow]
    return pytest.param(case, *more, marks=marks, id="-".join([case, *map(str, more)]))


@pytest.mark.parametrize("case", [_of(case) for case in EXAMPLES])
def test_golden(case: str, request: pytest.FixtureRequest) -> None:
    imported, _ = _imported(case)
    made = {f"{one.spec['name']}.yaml": text.spec(one) for one in imported}
    assert len(made) == len(imported), "each has a name of its own"
    made["report.txt"] = _report(case)
    folder = HERE / "examples" / case / "expected"
    if request.config.getoption("--update-golden"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in made.items():
            (folder / name).write_text(content, encoding="utf-8")
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert made == there


# Counted in the expectations, which `test_golden` holds to what is imported: collecting is cheap.
SPECS_OF = {case: len([*(HERE / "examples" / case / "expected").glob("*.yaml")]) for case in EXAMPLES}  # fmt: skip
SPECS = [_of(case, index) for case, count in SPECS_OF.items() for index in range(count)]


def test_an_import_of_every_kind_is_in_every_run() -> None:
    assert set(EXAMPLES) >= USUAL
    kinds = {source.kind for case in USUAL for source in _found(case).sources}
    assert kinds == {*(target.kind for target in TARGETS.values()), "Docker"}


@pytest.mark.parametrize(("case", "index"), SPECS)
def test_it_is_the_same_run_or_says_where_it_is_not(case: str, index: int) -> None:
    imported = _imported(case)[0][index]
    before = imported.source.run()
    after = _place(case, imported).run(imported.spec)
    assert isinstance(after, NormalForm)
    reported = frozenset(path for account in imported.accounts for path in account.changed)
    assert equivalence.differences(before, after, reported) == imported.added
    differing = {k for k in {**values(before), **values(after)} if values(before).get(k) != values(after).get(k)}  # fmt: skip
    for account in imported.accounts:
        assert set(account.changed) <= differing, account.pointer


@pytest.mark.parametrize(
    "case",
    [
        "jobset-every-field-of-a-pod",
        "pytorchjob-fsdp-with-efa",
        "pytorchjob-volumes-and-secrets",
        "pytorchjob-workers-that-differ",
    ],
)
def test_what_is_changed_at_once_has_the_fate_that_it_has_alone(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = _imported(case)[0][0]
    rendered = _place(case, imported).run(imported.spec)
    assert isinstance(rendered, NormalForm)
    monkeypatch.setattr(accounting, "_TOO_FEW", 1_000_000)
    alone = accounting.accounts(imported.source, imported.source.run(), rendered)
    assert [_fate(one) for one in imported.accounts] == [_fate(one) for one in alone]


def _fate(account: Account) -> tuple[object, ...]:
    return (account.part, account.pointer, account.fate == "left", account.changed)


@pytest.mark.parametrize(("case", "index"), SPECS)
def test_every_value_is_carried_or_a_default_or_listed(case: str, index: int) -> None:
    """Walks what was written, not what the import thinks that it read."""
    imported = _imported(case)[0][index]
    accounted = {(a.part, a.pointer): a for a in imported.accounts}
    listed = {left.field for left in imported.left}
    for number, part in enumerate(imported.source.parts):
        for pointer, _ in scalars(part.body):
            account = accounted[number, pointer]
            names = {part.called(pointer)}
            above = pointer
            while above:
                names.add(part.called(above))
                above = above.rpartition("/")[0]
            namespace = pointer == "/metadata/namespace"
            assert account.fate == "carried" or names & listed or namespace, pointer


MANIFESTS = [case for case in EXAMPLES if _inputs(case)[0].suffix == ".yaml"]


@pytest.mark.parametrize("case", MANIFESTS)
def test_no_object_of_a_file_is_lost(case: str) -> None:
    """Every leaf of every document is in a workload, in an object beside it, or refused."""
    found = _found(case)
    parts = [part for source in found.sources for part in source.parts]
    for source in reading.gather(tuple(str(path) for path in _inputs(case))):
        for chunk in reading.split(source):
            for document in reading.documents(chunk):
                if isinstance(document, tuple):
                    assert set(document) <= set(found.findings)
                    continue
                for item in reading.objects(document.data):
                    name = mapping(item.body.get("metadata")).get("name")
                    mentions = [
                        *(str(p.metadata.get("name")) for p in parts),
                        *(left.field.rpartition("/")[2] for left in found.beside),
                        *found.problems,
                    ]
                    compose = name is None and ("services" in item.body or found.sources)
                    place = document.place(item.prefix).file
                    assert compose or any(str(name) in m or place in m for m in mentions), name


@pytest.mark.parametrize(("case", "index"), SPECS)
def test_no_key_of_a_spec_can_go(case: str, index: int) -> None:
    imported = _imported(case)[0][index]
    place = _place(case, imported)
    whole = place.run(imported.spec)
    assert isinstance(whole, NormalForm)
    for path in _paths(imported.spec):
        shorter = place.run(_without(imported.spec, path))
        assert not isinstance(shorter, NormalForm) or values(shorter) != values(whole), path


def _paths(spec: Mapping[str, Data], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in spec.items():
        if (*above, key) not in (("apiVersion",), ("kind",), ("name",), ("target",)):
            found.append((*above, key))
            found += _paths(value, (*above, key)) if isinstance(value, Mapping) else []
    return found


def _without(spec: Mapping[str, Data], path: tuple[str, ...]) -> dict[str, Data]:
    key, *rest = path
    if not rest:
        return {name: value for name, value in spec.items() if name != key}
    return {n: _without(v, tuple(rest)) if n == key else v for n, v in spec.items()}


def test_there_are_examples_of_every_kind() -> None:
    assert len(EXAMPLES) >= 25
    kinds = {source.kind for case in EXAMPLES for source in _found(case).sources}
    assert kinds == {*(target.kind for target in TARGETS.values()), "Docker"}


@pytest.mark.parametrize("case", EXAMPLES)
def test_no_credential_is_copied_or_shown(case: str) -> None:
    for path in (HERE / "examples" / case / "expected").iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not credentials.kind(line), line
            assert "hunter22x" not in line


@pytest.mark.parametrize("case", [_of(case) for case in EXAMPLES])
def test_positions_are_where_the_values_stand(case: str) -> None:
    """The line that a report names is the one with the value on it."""
    for imported in _imported(case)[0]:
        for left in imported.left:
            lines = Path(left.place.file).read_text(encoding="utf-8").splitlines()
            line = lines[left.place.line - 1]
            assert left.place.column <= len(line) + 1
            if re.fullmatch(r"[\w./-]+", left.value) and left.field.startswith("/"):
                assert line[left.place.column - 1 :].lstrip('"').startswith(left.value), left


# --- our own -------------------------------------------------------------------------------------

# Those of one environment are in every run; the others are slow.
SHIPPED = [
    pytest.param(
        path,
        marks=[] if path.parts[-4] == "dev" else [pytest.mark.slow],
        id=path.relative_to(ROOT).as_posix(),
    )
    for path in sorted(ROOT.glob("environments/*/rendered/*/*.yaml"))
    if path.stem in TARGETS
]


@pytest.mark.parametrize("path", SHIPPED)
def test_what_was_rendered_comes_back_as_a_spec_of_the_same_run(path: Path) -> None:
    """Nothing is left of what the generator itself writes, but for names of the run in texts."""
    environment, job = path.parts[-4], path.parts[-2]
    found = ImportInput()
    found.files((str(path),))
    done = run(
        ROOT, found, ImportOptions(environment=environment, name=f"{job}-again", write=False)
    )
    (imported,) = done.imported
    body = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    manifests = (Manifest(body=body),)
    before = values(normal_form(manifests))
    after = ImportContext(Folder(ROOT), environment).run(imported.spec)
    assert isinstance(after, NormalForm)
    differing = {p for p in {**before, **values(after)} if before.get(p) != values(after).get(p)}
    own = re.compile(r"(/pods/\d+)?/(labels|annotations)/|/pods/\d+/program/options/|/nodes$")
    assert {p for p in differing if not own.match(p)} == set()


WITH_WHAT_IT_NEEDS = sorted(
    path.parent
    for path in (ROOT / "tests/golden").glob("*/expected/prod/rendered/*/*.yaml")
    if path.name in {"podmonitor.yaml", "externalsecret.yaml", "configmap.yaml"}
)


@pytest.mark.parametrize(
    "folder",
    sorted(set(WITH_WHAT_IT_NEEDS)),
    ids=lambda path: path.relative_to(ROOT / "tests/golden").as_posix(),
)
def test_what_is_rendered_beside_a_job_comes_back_as_fields_of_its_spec(
    folder: Path, tmp_path: Path
) -> None:
    golden = folder.parents[3]
    shutil.copytree(golden / "input/prod", tmp_path / "environments/prod")
    found = ImportInput()
    found.files((str(folder),))
    done = run(tmp_path, found, ImportOptions(environment="prod", name="again", write=False))
    (imported,) = done.imported
    before = values(imported.source.run())
    runtimes = tuple(m for m in imported.source.manifests() if m.kind.endswith("Runtime"))
    after = ImportContext(Folder(tmp_path), "prod", runtimes).run(imported.spec)
    assert isinstance(after, NormalForm)
    differing = {p for p in {**before, **values(after)} if before.get(p) != values(after).get(p)}
    own = re.compile(r".*/(labels|annotations)/|/isolated$|/beside/(Net|Persistent|ServiceA)")
    assert {p for p in differing if not own.match(p)} == set()
    written = yaml.safe_load((golden / f"input/prod/jobs/{folder.name}.yaml").read_bytes())
    for key in ("metrics", "entrypoint", "secrets"):
        assert imported.spec.get(key) == written.get(key)
    kinds = {left.field.partition("/")[0] for left in found.beside}
    assert kinds.isdisjoint({"PodMonitor", "ExternalSecret", "ConfigMap"})


# --- the command ---------------------------------------------------------------------------------

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: finetune}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: "registry.example.com/a:1", command: [python, -u, a.py]}]}}}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB, encoding="utf-8")
    return path


def test_a_file_is_written_once(repository: Repository, manifest: Path) -> None:
    done = repository.run("import", str(manifest), "--env", "dev")
    assert done.exit_code == 0, done.output
    assert done.stdout == "environments/dev/jobs/finetune.yaml\n"
    path = repository.root / done.stdout.strip()
    written = path.read_text(encoding="utf-8")
    assert written.startswith("# yaml-language-server: $schema=")
    again = repository.run("import", str(manifest), "--env", "dev")
    assert again.exit_code == 1
    assert "is there already" in again.stderr
    path.write_text("mine")
    assert repository.run("import", str(manifest), "--env", "dev", "--force").exit_code == 0
    assert path.read_text(encoding="utf-8") == written
    assert [p.name for p in path.parent.iterdir()] == ["finetune.yaml", "mnist.yaml"]


def test_what_was_imported_passes_a_check_and_renders(
    repository: Repository, manifest: Path
) -> None:
    repository.run("import", str(manifest), "--env", "dev")
    done = repository.run("render", "dev/finetune")
    assert done.exit_code == 0, done.output


def test_a_dry_run_prints_the_spec_and_writes_nothing(
    repository: Repository, manifest: Path
) -> None:
    before = sorted(repository.root.rglob("*"))
    done = repository.run("import", str(manifest), "--env", "dev", "--dry-run", "--name", "other")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout)["name"] == "other"
    assert sorted(repository.root.rglob("*")) == before


def test_a_command_line_of_its_own(repository: Repository) -> None:
    line = "docker run --name one registry.example.com/ml/a:1 python -u a.py --lr 0.1"
    done = repository.run("import", "--env", "dev", "--command", line, "--dry-run")
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.stdout)
    assert (spec["name"], spec["flags"]) == ("one", {"lr": 0.1})
    assert "--lr 0.1 is written as --lr=0.1" in done.stderr


GPUS = "docker run --gpus {} --name one registry.example.com/a:1 python -u a.py"


@pytest.mark.parametrize("asked", ["docker", "compose"])
def test_all_gpus_of_a_machine_need_a_pool_that_says_how_many(
    asked: str, repository: Repository, tmp_path: Path
) -> None:
    """Never a job that trains without any, because they are not counted."""
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        "services: {one: {image: 'registry.example.com/a:1', entrypoint: [python, -u, a.py], deploy: "
        "{resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}}}\n"
    )
    what = ["--command", GPUS.format("all")] if asked == "docker" else [str(compose)]
    done = repository.run("import", "--env", "dev", *what)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert (
        "it takes all nvidia.com/gpu of its machine, and no pool of dev says how many"
        in done.stderr
    )
    pool = re.search(r"`(pools: .*?)`", done.stderr)
    assert pool is not None
    repository.environment("dev", f"{pool[1]}\n")
    again = repository.run("import", "--env", "dev", *what, "--pool", "gpus", "--dry-run")
    assert again.exit_code == 0, again.stderr
    assert yaml.safe_load(again.stdout)["resources"] == {"gpu": 8}
    repository.environment("dev", "pools: {cpu: {}}\n")
    anyway = repository.run("import", "--env", "dev", *what, "--pool", "cpu", "--dry-run")
    assert anyway.exit_code == 1
    assert "cannot run" in anyway.stderr
    assert (
        "its pods have no nvidia.com/gpu without a pool: write one into environment.yaml, such as"
        in anyway.stderr
    )


@pytest.mark.parametrize(
    "gpus",
    [
        "2", "count=2", "device=0,3", "2,capabilities=utility", "count=2,driver=nvidia",
        "device=0,3,capabilities=utility", "capabilities=utility,device=0,3",
        "device=GPU-3a23c669-1f69,GPU-4b", """'"device=0,3",capabilities=utility'""",
    ],
)  # fmt: skip
def test_a_number_of_gpus_needs_no_pool(gpus: str, repository: Repository) -> None:
    done = repository.run("import", "--env", "dev", "--dry-run", "--command", GPUS.format(gpus))
    assert done.exit_code == 0
    assert yaml.safe_load(done.stdout)["resources"] == {"extended": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--env", "dev"), 2, "name a FILE"),
        (("FILE", "--env", "nowhere"), 2, 'there is no environment "nowhere"'),
        (("FILE", "--env", "dev", "--pool", "x"), 1, 'dev has no pool "x"'),
        (("missing.yaml", "--env", "dev"), 2, "cannot read missing.yaml"),
        (("--command", "rm -rf /", "--env", "dev"), 1, "rm is not a command that starts training"),
        (
            ("--command", "torchrun --nproc_per_node=8 train.py", "--env", "dev"),
            1,
            "Shell/train has no image",
        ),
        (
            ("--command", "python train.py", "--env", "dev"),
            1,
            "Name it with --image",
        ),
        (("--command", "rm -rf /", "--env", "dev", "--name", "a"), 1, "rm is not a command that"),
        (("--command", "docker run 'a", "--env", "dev"), 1, "1:12: ' is not closed"),
        (("--command", "docker run --nope a", "--env", "dev"), 1, "--nope"),
    ],
)
def test_what_cannot_be_imported_is_one_line(
    arguments: tuple[str, ...], code: int, message: str, repository: Repository, manifest: Path
) -> None:
    done = repository.run("import", *(str(manifest) if a == "FILE" else a for a in arguments))
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_nothing_to_import_is_said(repository: Repository, tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    done = repository.run("import", str(path), "--env", "dev")
    assert done.exit_code == 2
    assert "no training workload" in done.stderr


def test_two_workloads_of_one_name_do_not_overwrite_each_other(
    repository: Repository, manifest: Path
) -> None:
    manifest.write_text(f"{JOB}---\n{JOB}")
    done = repository.run("import", str(manifest), "--env", "dev", "--force")
    assert done.exit_code == 1
    assert "is another workload's already" in done.stderr


def test_nothing_is_written_through_a_link(
    repository: Repository, manifest: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    jobs = repository.root / "environments/dev/jobs"
    shutil.rmtree(jobs)
    jobs.symlink_to(outside)
    done = repository.run("import", str(manifest), "--env", "dev", "--force")
    assert done.exit_code != 0
    assert list(outside.iterdir()) == []


def test_a_pool_can_be_chosen(repository: Repository, manifest: Path) -> None:
    repository.environment(
        "dev", "pools: {gpu: {resource: nvidia.com/gpu, nodeSelector: {p: g}}}\n"
    )
    body = yaml.safe_load(JOB)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 2}}
    manifest.write_text(yamlio.dump(body))
    found = {
        pool: yaml.safe_load(
            repository.run("import", str(manifest), "--env", "dev", "--dry-run", *pool).stdout
        )["resources"]
        for pool in ((), ("--pool", "gpu"))
    }
    assert found[()] == {"extended": {"nvidia.com/gpu": 2}}
    assert found["--pool", "gpu"] == {"gpu": 2}


# --- nothing is dropped, whatever is written -------------------------------------------------------

ODD = (None, 0, -1, True, 1.5, "", "x", "$(A)", [], {}, ["a"], {"a": "b"}, 10**12, "é", "latest")
WHOLE = [case for case in MANIFESTS if SPECS_OF[case] and case not in ENTRYPOINTS and "malformed" not in case]  # fmt: skip
# Maps of names, which take any name there is, and maps whose values are objects of one type.
OF_NAMES = ("labels", "annotations", "nodeSelector", "requests", "limits", "environment", "volumeAttributes", "data")  # fmt: skip
OF_OBJECTS = ("pytorchReplicaSpecs", "services", "volumes")


def _documents(case: str) -> list[dict[str, Data]]:
    texts = [path.read_text(encoding="utf-8") for path in _inputs(case)]
    return [body for text in texts for body in yaml.safe_load_all(text) if body]


def _import(path: Path, bodies: list[dict[str, Data]]) -> ImportBatch:
    path.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    return run(HERE, found, ImportOptions(environment="lab", write=False, new_runs=True))


def _planted(data: Data, above: str = "") -> Data:
    """Data with an unknown field in every mapping that has fields."""
    if isinstance(data, list):
        return [_planted(item) for item in data]
    if not isinstance(data, dict) or above in OF_NAMES:
        return data
    inside = {key: _planted(value, key) for key, value in data.items()}
    return inside if above in OF_OBJECTS else {**inside, "planted": "x"}


@pytest.mark.parametrize("case", [_of(case) for case in WHOLE])
def test_an_unknown_field_is_listed(case: str, tmp_path: Path) -> None:
    done = _import(tmp_path / "planted.yaml", [_planted(body) for body in _documents(case)])
    assert done.problems == ()
    for imported in done.imported:
        fates = [a.fate for a in imported.accounts if a.pointer.endswith("/planted")]
        assert set(fates) == {"left"}
        assert len(fates) >= 2


MANY = "that many pods are a mistake"
COUNTS = ("replicas", "numNodes", "maxSize", "completions")


@pytest.mark.parametrize("case", [_of(case) for case in WHOLE])
def test_pods_by_the_million_are_a_mistake_and_never_built(case: str, tmp_path: Path) -> None:
    bodies = _documents(case)
    counts = [(body, at) for body in bodies for at, _ in scalars(body) if at.endswith(COUNTS)]
    for body, pointer in counts:
        above, _, key = pointer.rpartition("/")
        lookup(body, above)[key] = 10**9
    path = tmp_path / "many.yaml"
    path.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    # A workload of another shape is refused before its pods are counted, and for that.
    refused = [message for message in found.problems if "1000000000" in message]
    done = _import(path, bodies)
    assert not counts or refused or any(MANY in message for message in done.problems)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_broken_is_a_problem_and_no_crash(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        bodies = _documents(chance.choice(WHOLE))
        for _ in range(chance.randint(1, 3)):
            body = chance.choice(bodies)
            pointer = chance.choice([pointer for pointer, _ in scalars(body) if pointer])
            for _ in range(chance.choice((0, 0, 0, 1, 2))):
                pointer = pointer.rpartition("/")[0] if pointer.count("/") > 1 else pointer
            above, _, last = pointer.rpartition("/")
            holder = lookup(body, above)
            key = last.replace("~1", "/").replace("~0", "~")
            holder[int(key) if isinstance(holder, list) else key] = deepcopy(chance.choice(ODD))
        with suppress(TrainwrightError):  # that there is nothing to import
            _import(tmp_path / "broken.yaml", bodies)


@pytest.mark.parametrize(
    ("case", "title", "holds"),
    [
        ("jobset-of-two-groups", "has 2 roles", ("driver (1 pod: ", "; workers (")),
        ("jobset-of-several-replicas", "JobSet/two has 2 roles", ("node (", "container main of")),
        (
            "trainjob-2-3-with-an-initializer",
            "its TrainingRuntime my-runtime has 2 roles",
            (
                "dataset-initializer (1 pod: container dataset-initializer of registry",
                "after dataset-initializer is complete",
            ),
        ),
    ],
)
def test_several_roles_are_refused_with_what_they_hold(
    case: str, title: str, holds: tuple[str, ...], repository: Repository
) -> None:
    paths = [str(path) for path in _inputs(case)]
    done = repository.run("import", "--dry-run", "--env", "dev", *paths)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert title in done.stderr
    for held in holds:
        assert held in done.stderr


SLICES = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: llm
  annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}
spec:
  replicatedJobs:
"""
SLICE = """\
    - name: NAME
      replicas: REPLICAS
      template:
        spec:
          parallelism: 4
          completions: 4
          template:
            spec:
              nodeSelector: {cloud.google.com/gke-tpu-topology: 4x4}
              containers:
                - name: jax-tpu
                  image: registry.example.com/llm:1
                  resources: {limits: {google.com/tpu: 4}}
"""


@pytest.mark.parametrize(
    ("groups", "held"),
    [
        ({"slice": 3}, ("on 3 slices", "slice (12 pods: container jax-tpu of registry.example")),
        ({"first": 1, "second": 1}, ("on 2 slices", "first (4 pods: ", "; second (4 pods: ")),
    ],
)
def test_several_slices_of_tpus_are_refused_with_what_they_hold(
    groups: dict[str, int], held: tuple[str, ...], repository: Repository
) -> None:
    slices = (
        SLICE.replace("NAME", name).replace("REPLICAS", str(replicas))
        for name, replicas in groups.items()
    )
    path = repository.root / "llm.yaml"
    path.write_text(SLICES + "".join(slices), encoding="utf-8")
    done = repository.run("import", "--env", "dev", str(path))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "llm.yaml:8:5: JobSet/llm trains " in done.stderr
    assert all(words in done.stderr for words in (*held, "Keep applying it as it is"))
    assert "workload of its own" not in done.stderr  # they would not train together
    assert not (repository.root / "environments/dev/jobs/llm.yaml").exists()


@pytest.mark.parametrize("mark", ["", "dataset-initializer", "trainer"])
def test_what_trainer_ignores_of_a_trainjob_is_named(
    mark: str, repository: Repository, tmp_path: Path
) -> None:
    """It writes the image into the group that is marked as the trainer, or nowhere."""
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": mark} if mark else {}
    pod = {"containers": [{"name": "node", "image": "a:1", "command": ["torchrun", "t.py"]}]}
    group = {
        "name": "node",
        "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}},
    }
    head = {"apiVersion": "trainer.kubeflow.org/v1alpha1"}
    runtime = {
        **head,
        "kind": "TrainingRuntime",
        "metadata": {"name": "rt"},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [group]}},
        },
    }
    trainer = {"numNodes": 2, "image": "b:2"}
    job = {
        **head,
        "kind": "TrainJob",
        "metadata": {"name": "llm"},
        "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "rt"}, "trainer": trainer},
    }
    environment = "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: training\n"
    environment += 'kubernetes: {version: "1.34"}\ntargets: {trainjob: {version: "2.3"}}\n'
    repository.write("dev/environment.yaml", environment)
    file = tmp_path / "llm.yaml"
    file.write_text(yaml.safe_dump_all([runtime, job]))
    done = repository.run("import", str(file), "--env", "dev", "--dry-run")
    ignored = "Trainer ignores it: no pods of TrainingRuntime rt have the label" in done.stderr
    assert ignored == (mark != "trainer")
    assert ("nodes: 2" in done.stdout) == (mark == "trainer")


ONE_POOL = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {jobset: {}}
pools:
  cpu: {}
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, nodeSelector: {pool: h100}}
defaults: {maxDuration: 1h}
"""
ALL_GPUS = "docker run --gpus all registry.example.com/a:1 torchrun --nproc-per-node 8 train.py"


def test_all_gpus_of_a_machine_are_those_of_a_node_of_the_pool_that_has_some(
    repository: Repository,
) -> None:
    repository.write("lab/environment.yaml", ONE_POOL)
    done = repository.run("import", "--env=lab", "--name=clip", "--dry-run", "--command", ALL_GPUS)
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.stdout)
    assert (spec["pool"], spec["resources"]["gpu"]) == ("h100", 8)
    assert "maxDuration: null, since Docker/clip has none; delete it" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-docker run registry.example.com/a:1 torchrun --nproc-per-node 8 train.py",
        "docker run --runtime=nvidia registry.example.com/a:1 torchrun --nproc-per-node 8 train.py",
        "sudo podman run --device nvidia.com/gpu=all registry.example.com/a:1 torchrun "
        "--nproc-per-node 8 train.py",
    ],
)
def test_gpus_are_those_of_the_command_however_it_has_them(
    command: str, repository: Repository
) -> None:
    """Never a job without GPUs that ends with 0."""
    repository.write("lab/environment.yaml", ONE_POOL)
    done = repository.run("import", "--env=lab", "--name=clip", "--dry-run", "--command", command)
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.stdout)
    assert (spec["pool"], spec["resources"]["gpu"]) == ("h100", 8)


SPOT = (
    "  spot: {resource: nvidia.com/gpu, gpusPerNode: 8, spot: true, nodeSelector: {pool: spot}}\n"
)
OTHER = "  b200: {resource: nvidia.com/gpu, gpusPerNode: 8, nodeSelector: {pool: b200}}\n"


@pytest.mark.parametrize(
    ("pools", "chosen"),
    [
        (SPOT, "h100"),
        (OTHER, "write --pool b200 or --pool h100"),
        (f"{OTHER}{SPOT}", "write --pool b200 or --pool h100"),
        (OTHER.replace(", nodeSelector: {pool: b200}", ""), "b200"),
        (OTHER.replace("8", "4"), "h100"),
    ],
)
def test_all_gpus_of_a_machine_are_on_spot_nodes_only_if_a_pool_is_named(
    pools: str, chosen: str, repository: Repository
) -> None:
    environment = ONE_POOL.replace("  cpu: {}\n", f"  cpu: {{}}\n{pools}")
    repository.write("lab/environment.yaml", environment)
    importing = ("import", "--env=lab", "--name=clip", "--dry-run", "--command", ALL_GPUS)
    done = repository.run(*importing)
    if chosen.startswith("write"):
        assert done.exit_code == 1
        assert f"it takes all nvidia.com/gpu of its machine: {chosen}" in done.stderr
    else:
        assert yaml.safe_load(done.stdout)["pool"] == chosen
        assert f"the pool {chosen}: --pool names another" in done.stderr
    if "spot" in pools:
        done = repository.run(*importing, "--pool=spot")
        assert yaml.safe_load(done.stdout)["pool"] == "spot"


def test_spot_nodes_are_never_chosen(repository: Repository) -> None:
    h100 = "  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, nodeSelector: {pool: h100}}\n"
    repository.write("lab/environment.yaml", ONE_POOL.replace(h100, SPOT))
    done = repository.run("import", "--env=lab", "--name=clip", "--dry-run", "--command", ALL_GPUS)
    assert done.exit_code == 1
    assert "write --pool spot, whose nodes can be taken away" in done.stderr


def test_a_process_for_each_of_all_gpus_is_one_for_each_of_a_node(repository: Repository) -> None:
    """Never one process on a node of eight."""
    repository.write("lab/environment.yaml", ONE_POOL)
    command = ALL_GPUS.replace("node 8", "node gpu")
    done = repository.run("import", "--env=lab", "--name=clip", "--dry-run", "--command", command)
    assert done.exit_code == 0, done.output
    assert "procsPerNode" not in yaml.safe_load(done.stdout)


def test_what_the_environment_adds_is_nulled_beside_what_is_refused(
    repository: Repository, tmp_path: Path
) -> None:
    """Never the memory of a job that has none, since a folder of the same file is refused."""
    environment = ONE_POOL.replace("{maxDuration: 1h}", "{resources: {cpu: 2, memory: 4Gi}}")
    repository.write("lab/environment.yaml", environment)
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        "services: {a: {image: 'registry.example.com/a:1', entrypoint: [python, a.py], volumes: "
        "['./code:/code']}}"
    )
    done = repository.run("import", "--env=lab", "--dry-run", str(compose))
    assert yaml.safe_load(done.stdout).get("resources") is None
    assert "of memory" not in done.stderr


SCRIPT = """\
#!/bin/bash
# It's a script.
docker build -t a .
docker run --rm -e A="1
2" \\
  registry.example.com/a:1 bash -c '
set -e
torchrun train.py
'
docker push a
"""


def test_commands_of_a_script_begin_anywhere_and_end_with_their_quotes(
    repository: Repository, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SCRIPT, encoding="utf-8")
    done = repository.run("import", str(script), "--env", "dev", "--dry-run")
    assert done.exit_code == 1
    spec = yaml.safe_load(done.stdout)
    assert spec["entrypoint"]["argv"][-1] == "\nset -e\ntorchrun train.py\n"
    assert spec["env"] == {"A": "1\n2"}
    assert "run.sh:3:1: docker build is not a command that starts training" in done.stderr
    assert "run.sh:10:1: docker push is not a command that starts training" in done.stderr


def test_a_training_that_no_container_starts_is_read_with_its_image(repository: Repository) -> None:
    done = repository.run(
        *("import", "--env", "dev", "--dry-run", "--image", "registry.example.com/ml:1"),
        *("--command", "torchrun --nproc-per-node 8 train.py --lr 1e-3"),
    )
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.stdout)
    assert spec["name"] == "train"
    assert spec["launcher"] == "torchrun"
    assert spec["entrypoint"] == {"script": "train.py"}
    assert spec["flags"] == {"lr": "1e-3"}
    assert spec["procsPerNode"] == 8
    assert spec["resources"] == {"extended": {"nvidia.com/gpu": 8}}
    assert "8 are requested, one for each process" in done.stderr
    assert "Slurm" not in done.stderr
    assert "sbatch" not in done.stderr


@pytest.mark.parametrize(
    ("command", "name", "gpus"),
    [
        ("python -u -m pkg.train --lr 1", "train", 0),
        ("LR=1 torchrun fit.py", "fit", 0),
        ("accelerate launch --num_processes 4 fit.py", "fit", 4),
        ("deepspeed --num_gpus 4 fit.py --deepspeed ds.json", "fit", 4),
    ],
)
def test_the_gpus_of_a_training_without_a_container_are_named_or_missed(
    command: str, name: str, gpus: int, repository: Repository
) -> None:
    done = repository.run(
        *("import", "--env", "dev", "--dry-run", "--image", "registry.example.com/ml:1"),
        *("--command", command),
    )
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.stdout)
    assert spec["name"] == name
    assert (spec.get("resources") or {}).get("extended", {}).get("nvidia.com/gpu", 0) == gpus
    said = f"{gpus} are requested" if gpus else "none are requested: write resources.gpu"
    assert said in done.stderr


@pytest.mark.parametrize("file", ["fit.sh", "fit"])
def test_a_shell_script_around_a_training_is_read_as_a_shell_would(
    file: str, repository: Repository, tmp_path: Path
) -> None:
    script = tmp_path / file
    script.write_text(
        "#!/bin/bash\nset -e\nexport NCCL_DEBUG=INFO\ncd /work\nN=4\n"
        "torchrun --nproc-per-node $N train.py --lr 1e-3\n"
    )
    arguments = ("--env", "dev", "--dry-run", "--image", "registry.example.com/ml:1")
    done = repository.run("import", *arguments, str(script))
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load(done.stdout)
    assert spec["name"] == ("fit" if script.suffix else "train")
    assert spec["procsPerNode"] == 4
    assert spec["env"] == {"NCCL_DEBUG": "INFO"}
    assert spec["workingDir"] == "/work"
