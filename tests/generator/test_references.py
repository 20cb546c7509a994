"""References to a run's own facts, in every text of a job and on every target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from normal_forms import normal_form
from repository import EVERY_TARGET, Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.kinds import TARGETS
from trainwright.objects.pods.references import REFERENCES, find, nearest, replace

ENVIRONMENT = (
    """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: baseline
"""
    + EVERY_TARGET
)
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
resources: {cpu: "1", memory: 1Gi}
maxDuration: null
"""
SEVERAL = ["pytorchjob", "trainjob", "jobset", "job"]  # whose nodes know where they meet


def _rendered(repository: Repository, target: str, text: str) -> tuple[Manifest, ...]:
    repository.write("prod/environment.yaml", ENVIRONMENT)
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: {target}\n{text}")
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/prod/rendered/llm"
    envelope = TARGETS[target].envelope or dict
    return tuple(
        Manifest(body=envelope(body), path=path.name)
        for path in sorted(folder.glob("*.yaml"))
        if path.name != "values.yaml"
        for body in yamlio.load_rendered(path.read_text(encoding="utf-8"))
    )


def _name(repository: Repository) -> str:
    path = repository.root / "environments/prod/rendered/llm/run.lock"
    return str(json.loads(path.read_text(encoding="utf-8"))["object"])


def _check(repository: Repository, target: str, text: str) -> str:
    repository.write("prod/environment.yaml", ENVIRONMENT)
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: {target}\n{text}")
    done = repository.run("check", "prod")
    assert done.exit_code == 1, done.output
    return done.stdout


ALL_KNOWN = """\
entrypoint: {script: train.py}
launcher: python
nodes: 2
env:
  RUN: "${{ run.name }}/${{run.number}}"
  URL: "tcp://${{ rank0.address }}:${{ rank0.port }}"
flags:
  job: "${{ job.name }} in ${{ environment.name }}, ${{ namespace }}"
  sizes: "${{ nodes }}x${{ procsPerNode }}=${{ world.size }}"
  rank: "${{ node.rank }}"
  literal: "$${{ nodes }} $(HOME) ${NOT} {{ helm }}"
"""


@pytest.mark.parametrize("target", SEVERAL)
def test_each_pod_gets_the_facts_of_its_run(target: str, repository: Repository) -> None:
    manifests = _rendered(repository, target, ALL_KNOWN)
    name = _name(repository)
    pods = normal_form(manifests).pods
    addresses = {
        "pytorchjob": f"{name}-master-0:23456",
        "trainjob": f"{name}-node-0-0.{name}:29500",
        "jobset": f"{name}-node-0-0.{name}:29500",
        "job": f"{name}-0.{name}:29500",
    }
    assert [pod.program.flags["rank"] for pod in pods] == [("0",), ("1",)]
    for pod in pods:
        assert pod.env["RUN"] == f"{name}/1"
        assert pod.env["URL"] == f"tcp://{addresses[target]}"
        assert pod.program.flags["job"] == ("llm in prod, training",)
        assert pod.program.flags["sizes"] == ("2x1=2",)
        assert pod.program.flags["literal"] == ("${{ nodes }} $(HOME) ${NOT} {{ helm }}",)


@pytest.mark.parametrize("target", ["trainjob", "jobset", "job"])
@pytest.mark.parametrize("launcher", ["python", "torchrun", "trainwright"])
def test_a_variable_of_a_pod_refers_to_its_rank(
    target: str, launcher: str, repository: Repository
) -> None:
    text = (
        f"entrypoint: {{script: a.py}}\nlauncher: {launcher}\nnodes: 2\n"
        'env: {AAA: "node-${{ node.rank }}"}\n'
    )
    pods = normal_form(_rendered(repository, target, text)).pods
    assert [pod.env["AAA"] for pod in pods] == ["node-0", "node-1"]


def test_a_variable_that_the_operator_sets_later_is_refused(repository: Repository) -> None:
    text = 'entrypoint: {script: a.py}\nnodes: 2\nenv:\n  AAA: "node-${{ node.rank }}"\n'
    message = _check(repository, "pytorchjob", text)
    assert "pytorchjob: `${{ node.rank }}` is RANK, which is set after the variables" in message
    assert "llm.yaml:11:8" in message


@pytest.mark.parametrize("target", ["compose", "trainingjob"])
def test_one_machine_meets_itself(target: str, repository: Repository) -> None:
    text = (
        "entrypoint: {argv: [/bin/train, '${{ rank0.address }}:${{ rank0.port }}',"
        " '${{ node.rank }}', '${{ nodes }}', '${{ run.name }}']}\nlauncher: python\n"
    )
    words = normal_form(_rendered(repository, target, text)).pods[0].program.words
    assert words == ("/bin/train", "127.0.0.1:29500", "0", "1", _name(repository))


def test_nodes_that_agree_on_where_they_meet_have_no_address(repository: Repository) -> None:
    text = 'entrypoint: {script: a.py}\nnodes: 2\nflags: {url: "${{ rank0.address }}"}\n'
    message = _check(repository, "trainingjob", text)
    assert "trainingjob: `${{ rank0.address }}` is not known: the nodes of a TrainingJob" in message


@pytest.mark.parametrize("target", [*SEVERAL, "compose"])
def test_a_script_has_them_as_text(target: str, repository: Repository) -> None:
    text = (
        "entrypoint:\n  inline: |\n    run = '${{ run.name }}'\n    print(f'$${{run}}')\n"
        "launcher: python\n"
    )
    files = normal_form(_rendered(repository, target, text)).pods[0].files
    assert list(files.values()) == [f"run = '{_name(repository)}'\nprint(f'${{{{run}}}}')\n"]


def test_a_script_is_the_same_in_all_pods(repository: Repository) -> None:
    text = "entrypoint: {inline: 'rank = ${{ node.rank }}'}\nnodes: 2\n"
    message = _check(repository, "jobset", text)
    assert "jobset: `${{ node.rank }}` differs between pods, which the command and the" in message
    assert "entrypoint.inline cannot" in message
    assert "Read the variable JOB_COMPLETION_INDEX there" in message


def test_the_folder_of_the_checkpoints(repository: Repository) -> None:
    text = (
        "entrypoint: {argv: [train, '${{ checkpoint.folder }}']}\n"
        "volumes: {v: {claim: v, mountPath: /v/}}\ncheckpoint: {volume: v, path: c}\n"
    )
    pod = normal_form(_rendered(repository, "job", text)).pods[0]
    assert pod.program.words[1] == pod.env["TRAINWRIGHT_CHECKPOINT_DIR"]


def test_texts_beside_the_command_have_them(repository: Repository) -> None:
    text = (
        "entrypoint: {script: a.py}\nannotations: {example.com/run: '${{ run.name }}'}\n"
        "volumes: {v: {claim: v, mountPath: /v, subPath: 'runs/${{ run.name }}'}}\n"
    )
    manifests = _rendered(repository, "job", text)
    job = next(m.body for m in manifests if m.kind == "Job")
    assert job["metadata"]["annotations"]["example.com/run"] == _name(repository)
    mounts = job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {"runs/" + _name(repository)} == {m["subPath"] for m in mounts if "subPath" in m}


def test_a_mistake_in_a_script_is_at_its_line(repository: Repository) -> None:
    script = (
        "entrypoint:\n  inline: |\n\n    import os\n"
        "    print('${{ run.name }}', '${{ run.nme }}')\n    print('${{ nodes')\n"
    )
    message = _check(repository, "job", script)
    assert "llm.yaml:12:31" in message
    assert "llm.yaml:13:12" in message
    folded = "entrypoint:\n  inline: >\n    a\n\n    ${{ run.nme }}\n"
    assert "llm.yaml:9:11" in _check(repository, "job", folded)


@pytest.mark.parametrize("target", ["job", "compose"])
def test_files_have_them_as_text(target: str, repository: Repository) -> None:
    (repository.root / "conf").mkdir()
    (repository.root / "conf/b.yaml").write_text("url: ${{ rank0.address }} $${{ a }}\n")
    text = (
        "entrypoint: {script: a.py}\nfiles:\n"
        "  /etc/a.yaml: {content: 'out: /x/${{ run.name }}'}\n  /etc/b.yaml: {from: conf/b.yaml}\n"
    )
    files = normal_form(_rendered(repository, target, text)).pods[0].files
    name = _name(repository)
    address = "127.0.0.1" if target == "compose" else f"{name}-0.{name}"
    assert files["/etc/a.yaml"] == f"out: /x/{name}"
    assert files["/etc/b.yaml"] == f"url: {address} ${{{{ a }}}}\n"


@pytest.mark.parametrize(
    ("written", "reported"),
    [
        ("${{ run.nam }}", "there is no reference `${{ run.nam }}`: did you mean `${{ run.name }}`?"),
        ("${{ procs.per.node }}", "did you mean `${{ procsPerNode }}`?"),
        ("${{ MASTER_ADDR }}", "did you mean `${{ rank0.address }}`?"),
        ("${{ world_size }}", "did you mean `${{ world.size }}`?"),
        ("${{ github.sha }}", "there is no reference `${{ github.sha }}`\n"),
        ("${{}}", "there is no reference `${{  }}`\n"),
        ("${{ nodes", "`${{` in flags.a is not closed by `}}` on the same line"),
        ("${{ elastic.minNodes }}", "`${{ elastic.minNodes }}` is not known: the job is not elastic"),
        ("${{ checkpoint.folder }}", "is not known: the job has no checkpoint"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_reported(written: str, reported: str, repository: Repository) -> None:
    text = f"entrypoint: {{script: a.py}}\nflags:\n  a: '{written}'\n"
    message = _check(repository, "job", text)
    assert reported in message
    assert "llm.yaml:10:6" in message


def test_the_nodes_of_an_elastic_job_change(repository: Repository) -> None:
    head = "entrypoint: {script: a.py}\nelastic: {minNodes: 2, maxNodes: 4}\n"
    message = _check(repository, "pytorchjob", f"{head}flags: {{a: '${{{{ world.size }}}}'}}\n")
    assert "`${{ world.size }}` is not known: nodes come and go in an elastic job" in message
    sizes = "${{ elastic.minNodes }}:${{ elastic.maxNodes }}@${{ rank0.address }}"
    manifests = _rendered(repository, "pytorchjob", f"{head}flags: {{a: '{sizes}'}}\n")
    flags = normal_form(manifests).pods[0].program.flags
    assert flags["a"] == (f"2:4@{_name(repository)}-worker-0",)


def test_the_name_of_a_run_does_not_depend_on_itself(repository: Repository) -> None:
    text = "entrypoint: {script: a.py}\nflags: {out: '/out/${{ run.name }}'}\n"
    _rendered(repository, "job", text)
    before = _name(repository)
    assert repository.run("render", "--check", "prod").exit_code == 0
    _rendered(repository, "job", text)
    assert _name(repository) == before


def test_a_variable_of_the_job_is_not_replaced_by_what_a_reference_needs(
    repository: Repository,
) -> None:
    text = (
        "entrypoint: {script: a.py}\nlauncher: python\nnodes: 2\n"
        "flags: {a: '${{ node.rank }}'}\nenv: {JOB_COMPLETION_INDEX: '7'}\n"
    )
    assert "the variable JOB_COMPLETION_INDEX is set for every Job" in _check(
        repository, "job", text
    )


# --- texts alone ---------------------------------------------------------------------------------


def test_replacing() -> None:
    facts = {"a": "1", "b.c": "2"}
    assert replace("no", facts) == "no"
    assert replace("${{a}}${{ b.c }} $${{ a }} ${a} $$", facts) == "12 ${{ a }} ${a} $$"
    assert replace("$$${{ a }}", facts) == "$${{ a }}"
    assert [r.name for r in find("${{ x }} $${{ y }} ${{\n}} ${{ z")] == ["x", None, None]


def test_every_reference_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/references.md").read_text(encoding="utf-8")
    for name in REFERENCES:
        assert f"| `${{{{ {name} }}}}` |" in page
        assert nearest(name) == name


def test_a_spec_with_references_is_yaml() -> None:
    assert yaml.safe_load("a: ${{ run.name }}") == {"a": "${{ run.name }}"}
