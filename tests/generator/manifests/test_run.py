"""Whole runs: what manifests are to each other, environments, processes, reports, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import repository as written
from repository import ENVIRONMENT, Repository
from trainwright.cli import common as command
from trainwright.cli import main
from trainwright.datatypes.finding import Finding, Severity
from trainwright.documents import fast_yaml
from trainwright.documents.validation import kubernetes_schemas
from trainwright.manifests import parallel, run
from trainwright.manifests.run import ManifestOptions
from uninstalled import without

TODAY = "2026-06-01"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: one}
spec:
  runPolicy: {backoffLimit: 1}
  pytorchReplicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: Never
      template: {spec: {containers: [{name: pytorch, image: "registry.example.com/a:1", command: [torchrun, a.py]}]}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*paths: str, **options: object) -> list[Finding]:
    return list(run.check(paths, ManifestOptions(today=TODAY, **options)).findings)  # type: ignore[arg-type]


def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=stdin)


# --- what manifests are to each other -------------------------------------------------------------


def test_objects_that_are_described_twice(here: Path) -> None:
    (here / "a.yaml").write_text(f"{CONFIG}---\n{JOB}")
    (here / "b.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    )
    (here / "c.yaml").write_text(
        f"{CONFIG.replace('{name: a}', '{name: a, namespace: b}')}---\n{JOB}"
    )
    found = [f for f in check(".") if f.rule == "TW512"]
    assert [(str(f.place), str(f.related[0].place)) for f in found] == [
        ("b.json:1:64", "a.yaml:3:18"),
        ("c.yaml:7:18", "a.yaml:7:18"),
    ]
    assert found[0].message == "ConfigMap/a is described twice"


def test_folders_side_by_side_are_applied_apart(here: Path) -> None:
    for name in ("a.yaml", "prod/a.yaml", "staging/a.yaml"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(CONFIG)
    assert [f.place.file for f in check(".") if f.rule == "TW512"] == [
        "prod/a.yaml",
        "staging/a.yaml",
    ]
    (here / "a.yaml").unlink()
    assert [f for f in check(".") if f.rule == "TW512"] == []


def test_generated_names_are_no_duplicates(here: Path) -> None:
    text = CONFIG.replace("name: a", "generateName: a-")
    (here / "a.yaml").write_text(f"{text}---\n{text}")
    assert [f.rule for f in check(".")] == ["TW501", "TW501"]


def test_a_runtime_in_another_file_completes_a_job(here: Path) -> None:
    job = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\nspec: {runtimeRef: {name: r, kind: TrainingRuntime}, trainer: {image: 'a:1', command: [torchrun, x]}}\n"
    runtime = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: r, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {hostPID: true, containers: [{name: node, image: 'b:1', env: [{name: A}, {name: A}]}]}}}
"""
    (here / "job.yaml").write_text(job)
    (here / "runtime.yaml").write_text(runtime)
    alone = {f.rule for f in check("job.yaml")}
    together = {f.rule for f in check(".") if f.place.file == "job.yaml"}
    assert "TW713" in together - alone


def test_kinds_without_a_schema_are_said_once(here: Path) -> None:
    (here / "a.yaml").write_text(
        "\n---\n".join(f"apiVersion: x.io/v1\nkind: {kind}\nmetadata: {{name: n{i}}}" for i, kind in enumerate("XXZX"))
    )  # fmt: skip
    found = [f for f in check(".") if f.rule == "TW014"]
    assert [(str(f.place), f.severity.value, f.message) for f in found] == [
        ("a.yaml:1:1", "note", "skipped: no schema for X of x.io/v1, 3 objects"),
        ("a.yaml:9:1", "note", "skipped: no schema for Z of x.io/v1, 1 object"),
    ]
    needed = [f for f in check(".", need_schemas=True) if f.rule == "TW014"]
    assert [f.severity for f in needed] == [Severity.ERROR, Severity.ERROR]


def test_files_for_tools_are_not_held_against_the_cluster(here: Path) -> None:
    kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    (here / "kustomization.yaml").write_text(f"{kustomization}resources: [a.yaml]\n")
    (here / "other.yaml").write_text(kustomization.replace("tion\n", "tor\n"))
    (here / "values.yaml").write_text("image: a\n")
    (here / "a.yaml").write_text(CONFIG)
    assert [(f.place.file, f.rule, f.severity.value) for f in check(".", need_schemas=True)] == [
        ("other.yaml", "TW014", "note"),
        ("values.yaml", "TW005", "note"),
    ]
    assert [f.severity.value for f in check("values.yaml")] == ["error"]  # asked for by name


def test_nothing_is_said_of_what_we_render_beside_manifests(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repository.run("render").exit_code == 0
    rendered = repository.root / "environments/prod/rendered"
    assert (rendered / "llm/values.yaml").exists()
    for folder, path in ((repository.root, "."), (rendered, "."), (rendered.parent, str(rendered))):
        monkeypatch.chdir(folder)
        message = [f for f in check(path, need_schemas=True) if f.rule in {"TW005", "TW014"}]
        assert [f.message for f in message if "JobSpec" not in f.message] == (
            ["skipped: no schema for Environment of trainwright.io/v1alpha1, 2 objects"]
            if folder == repository.root
            else []
        )
    for name in ("stray/values.yaml", "llm/other.yaml", "llm/pytorchjob.yaml"):
        (rendered / name).parent.mkdir(exist_ok=True)
        (rendered / name).write_text("image: a\n")
    assert [f.rule for f in check(str(rendered))] == ["TW005"] * 3


def test_without_an_environment_nothing_is_held_against_one(here: Path) -> None:
    (here / "a.yaml").write_text(JOB)
    assert check(".") == []


# --- CRDs -----------------------------------------------------------------------------------------

DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xs.x.io}
spec:
  group: x.io
  names: {kind: X, plural: xs}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {a: {type: integer}, b: {type: integer, default: 3}}
            x-kubernetes-validations:
            - {rule: "self.a < self.b", message: a must be less than b}
            - {rule: "authorizer.path('/x').check('get').allowed()"}
"""


def test_definitions_take_part(here: Path) -> None:
    (here / "crds").mkdir()
    (here / "crds" / "x.yaml").write_text(DEFINITION)
    envelope = "apiVersion: x.io/v1\nkind: X\nmetadata: {name: NAME}\n"
    (here / "a.yaml").write_text(
        "---\n".join(
            envelope.replace("NAME", f"n{i}") + f"spec: {spec}\n"
            for i, spec in enumerate(("{a: 1}", "{a: 3}", "{a: x}", "{c: 1, a: 9}"))
        )
    )
    found = check("a.yaml", crds=here / "crds")
    assert [(f.rule, str(f.place), f.severity.value, f.message) for f in found] == [
        (
            "TW016",
            "a.yaml:1:1",
            "note",
            "X: not evaluated: authorizer.path('/x').check('get').allowed(): "
            "undeclared reference to 'authorizer' (in container '')",
        ),
        ("TW015", "a.yaml:9:7", "error", "a must be less than b"),
        ("TW011", "a.yaml:14:11", "error", 'spec.a must be an integer, found a string: "x"'),
        ("TW011", "a.yaml:19:8", "error", 'unknown key "c" in spec'),
    ]


def test_rules_of_definitions_need_their_extra_and_nothing_else_does(here: Path) -> None:
    (here / "crds").mkdir()
    (here / "crds" / "x.yaml").write_text(DEFINITION)
    (here / "a.yaml").write_text(
        "apiVersion: x.io/v1\nkind: X\nmetadata: {name: n0}\nspec: {a: 1}\n"
    )
    arguments = ("validate", "a.yaml", "--crds", "crds")
    done = without("cel_expr_python", *arguments, cwd=here)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'trainwright[cel]'" in done.stderr
    assert "Traceback" not in done.stderr
    (here / "crds" / "x.yaml").write_text(DEFINITION.partition("x-kubernetes-validations")[0])
    done = without("cel_expr_python", *arguments, cwd=here)
    assert done.returncode == 0, done.stderr


def test_what_we_ship_is_valid_upstream(shared: Callable[[str], Path]) -> None:
    root = Path(__file__).parents[3]
    folders = sorted(str(path) for path in root.glob("environments/*/rendered"))
    found = check(*folders, crds=shared("crds"))
    assert [f for f in found if f.severity is Severity.ERROR] == []


# --- environments and versions --------------------------------------------------------------------


def test_an_environment_brings_its_facts_severities_and_waivers(repository: Repository) -> None:
    manifest = repository.root / "a.yaml"
    host = JOB.replace("spec: {containers", "spec: {hostNetwork: true, containers")
    manifest.write_text(host)
    arguments = ("-C", str(repository.root), "validate", str(manifest), "-o", "json")

    def rules(*more: str) -> dict[str, str]:
        done = CliRunner().invoke(main, [*arguments, *more])
        results = json.loads(done.output)["report"]["results"]
        return {result["rule"]: result["severity"] for result in results}

    assert "TW707" not in rules()
    assert rules("--env", "prod")["TW707"] == "error"
    repository.environment("prod", "severities: {TW707: note}\n")
    assert rules("--env", "prod")["TW707"] == "note"
    waiver = '{rule: TW707, job: one, reason: it is ours, until: "2026-12-31"}'
    repository.environment("prod", f"waivers: [{waiver}]\n")
    assert "TW707" not in rules("--env", "prod")


def test_an_environment_that_is_not_there(repository: Repository) -> None:
    done = repository.run("validate", ".", "--env", "nowhere")
    assert done.exit_code == 2
    assert 'there is no environment "nowhere"' in done.stderr


def test_the_version_of_the_environment_and_that_of_the_option(repository: Repository) -> None:
    manifest = repository.root / "a.yaml"
    manifest.write_text(JOB.replace("image:", "restartPolicyRules: [], image:"))
    asked = ("validate", str(manifest), "--env", "prod")
    done = repository.run(*asked)
    assert "it comes with Kubernetes 1.34, this is 1.31" in done.output
    assert "TW011" not in repository.run(*asked, "--kubernetes-version", "1.36").output


def test_the_version_of_job_specs(repository: Repository) -> None:
    assert repository.run("check", "prod", "--kubernetes-version", "1.29").exit_code == 0
    job = repository.job("prod/other", "affinity: {podAffinity: {nonsense: []}}\n")
    message = repository.run("check", "prod/other", "--kubernetes-version", "1.29").output
    assert 'unknown key "nonsense"' in message
    job.unlink()


def test_versions_are_those_that_there_are_schemas_of() -> None:
    assert command.VERSIONS == kubernetes_schemas.VERSIONS
    assert set(kubernetes_schemas.VERSIONS) <= set(kubernetes_schemas.available())


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_many_processes_say_what_one_says(
    here: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    jobs = [JOB.replace("one", f"job-{i % 25}") for i in range(30)]
    broken = [job.replace("replicas: 1", "replicas: x") for job in jobs[:3]]
    (here / "a.yaml").write_text("---\n".join([*jobs, *broken, CONFIG, "a: ["]))
    alone = run.check((".",), ManifestOptions(today=TODAY))
    monkeypatch.setattr(parallel, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(parallel, "_BATCH", 2000)
    monkeypatch.setattr(parallel, "processors", lambda: 2)
    monkeypatch.setattr(parallel, "START", start)
    together = run.check((".",), ManifestOptions(today=TODAY))
    assert together == alone
    assert len(alone.findings) > 10


def test_without_the_fast_reader_all_is_the_same(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "a.yaml").write_text(f"{CONFIG}---\n{CONFIG}dta: {{}}\n---\n{JOB}")
    quick = run.check((".",), ManifestOptions(today=TODAY))
    monkeypatch.setattr(fast_yaml, "_loads", None)
    assert run.check((".",), ManifestOptions(today=TODAY)) == quick
    assert len(quick.findings) == 2


# --- the command line -----------------------------------------------------------------------------


def test_helm_output_on_standard_input() -> None:
    text = f"---\n# Source: chart/templates/a.yaml\n{CONFIG}dta: {{}}\n---\n# nothing\n"
    done = invoke("-", stdin=text)
    assert done.exit_code == 1
    assert 'error[TW011]: unknown key "dta"' in done.output
    assert "--> <stdin>:6:1" in done.output
    assert "1 error in 1 file" in done.output


def test_exit_codes(here: Path) -> None:
    (here / "a.yaml").write_text("apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}")
    assert invoke("a.yaml").exit_code == 0
    assert invoke("a.yaml", "--fail-on", "note").exit_code == 1
    assert invoke("a.yaml", "--need-schemas").exit_code == 1
    assert invoke("none.yaml").exit_code == 2
    assert invoke("a.yaml", "--crds", ".").exit_code == 2
    assert invoke("a.yaml", "prod").exit_code == 2
    assert invoke("--crds", ".").exit_code == 2
    assert invoke("a.yaml", "--kubernetes-version", "1.20").exit_code == 2


@pytest.mark.parametrize("output", ["text", "json", "sarif", "github", "junit", "markdown"])
def test_every_format(here: Path, output: str) -> None:
    (here / "a.yaml").write_text(f"{CONFIG}x: 1\n")
    done = invoke("a.yaml", "-o", output)
    assert done.exit_code == 1
    assert "a.yaml" in done.output
    assert "unknown key" in done.output


def test_no_format_shows_what_a_secret_holds(here: Path) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  a: 31337\n  hunter2canary: [x, 31337]\n"
    (here / "a.yaml").write_text(secret)
    (here / "b.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}, "stringData": {"a": 31337}}))  # fmt: skip
    for output in command.FORMATS:
        done = invoke(".", "-o", output)
        assert done.exit_code == 1
        assert "stringData.a must be a string" in done.output.replace("\\", "")
        assert "31337" not in done.output


@pytest.mark.parametrize("output", command.FORMATS)
def test_a_value_that_its_name_gives_away_is_in_no_report(here: Path, output: str) -> None:
    flow = "[{name: pytorch, tty: 1, env: [{name: DB_PASSWORD, value: correct-horse-7}]"
    (here / "flow.yaml").write_text(JOB.replace("[{name: pytorch", flow))
    block = "\n        - name: DB_PASSWORD\n          value: correct-horse-8\n"
    (here / "block.yaml").write_text(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a}]}}}\n"
        .replace("spec: {template: {spec: {containers: [{name: a}]}}}", "spec:\n  template:\n    spec:\n      containers:\n      - name: a\n        env:" + block)
    )  # fmt: skip
    done = invoke("flow.yaml", "block.yaml", "-o", output)
    assert done.exit_code == 1
    assert done.output.count("TW710") >= 2
    assert "correct-horse" not in done.output


def test_an_environment_without_queues_hears_of_no_gang_in_what_it_rendered(
    tmp_path: Path,
) -> None:
    repository = Repository(tmp_path)
    pools = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16}}\n"
    repository.write("prod/environment.yaml", ENVIRONMENT + pools)
    text = (
        written.JOB.replace("NAME", "llm").replace("memory: 1Gi", "memory: 1Gi, gpu: 1")
        + "pool: h100\n"
    )
    repository.write("prod/jobs/llm.yaml", text)
    assert repository.run("render").exit_code == 0
    rendered = str(tmp_path / "environments/prod/rendered")
    assert "TW756" not in repository.run("validate", rendered, "--env", "prod").stdout
    assert "TW756" in repository.run("validate", rendered).stdout
