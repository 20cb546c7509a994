"""Specs moved to another target: one line changes, and what is lost is said."""

from __future__ import annotations

import difflib

import pytest
import yaml

from repository import ENVIRONMENT, JOB, Repository
from trainwright.importing.migration import successors

BOTH = ENVIRONMENT.replace(
    '"1.9", restrictedInitContainer: true}', '"1.9", restrictedInitContainer: true}, trainjob: {version: "2.3"}'
)  # fmt: skip

MOVE = ("import", "--to", "trainjob")


@pytest.fixture
def place(tmp_path: object) -> Repository:
    repository = Repository(tmp_path)  # type: ignore[arg-type]
    repository.write("prod/environment.yaml", BOTH)
    return repository


STYLES = {
    "no-target": JOB,
    "a-target": f"{JOB}target:   pytorchjob   # the installed base\n",
    "quoted": JOB.replace("nodes: 2", "target: 'pytorchjob'\nnodes: 2 # two"),
    "crlf": JOB.replace("\n", "\r\n"),
    "flow": '{apiVersion: trainwright.io/v1alpha1, kind: JobSpec, name: NAME, image: {repository: registry.example.com/a, tag: "1"},\n  entrypoint:   {script: a.py}, target: "pytorchjob"} # all of it\n',
    "no-line-end": f"{JOB}target: pytorchjob",
    "comments": f"# before\n\n{JOB}\n# after\ntarget: pytorchjob\n\n\n# last\n",
}


@pytest.mark.parametrize("style", STYLES)
def test_only_the_target_changes_byte_for_byte(style: str, place: Repository) -> None:
    path = place.write(f"prod/jobs/{style}.yaml", "")
    before = STYLES[style].replace("NAME", style).encode()
    path.write_bytes(before)
    done = place.run(*MOVE, f"prod/{style}")
    assert done.exit_code == 0, done.output
    after = path.read_bytes()
    assert yaml.safe_load(after) == {**yaml.safe_load(before), "target": "trainjob"}
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    changed = [codes for codes in matcher.get_opcodes() if codes[0] != "equal"]
    for _, start, end, new_start, new_end in changed:
        assert end - start <= len("pytorchjob")
        assert new_end - new_start <= len("\r\ntarget: trainjob\r\n")
    assert place.run("render", f"prod/{style}").exit_code == 0
    assert (place.root / f"environments/prod/rendered/{style}/trainjob.yaml").exists()


def test_a_dry_run_only_shows_the_diff(place: Repository) -> None:
    path = place.job("prod/llm", "target: pytorchjob\nretries: 2\n")
    before = path.read_bytes()
    done = place.run(*MOVE, "prod", "--dry-run")
    assert done.exit_code == 0, done.output
    assert path.read_bytes() == before
    assert "-target: pytorchjob\n+target: trainjob\n" in done.stdout
    assert "Success (pytorchjob): The master alone decides" in done.stderr
    assert "Retries (trainjob): All pods are restarted" in done.stderr
    assert "1 to move, 0 refused" in done.stderr


def test_an_elastic_job_is_refused_by_name_and_left_alone(place: Repository) -> None:
    path = place.job("prod/elastic", "elastic: {minNodes: 1, maxNodes: 4}\n")
    other = place.job("prod/fixed")
    before = path.read_bytes()
    done = place.run(*MOVE, "prod")
    assert done.exit_code == 1
    assert path.read_bytes() == before
    assert b"target: trainjob" in other.read_bytes()
    assert "prod/elastic: refused: trainjob: nodes may come and go" in done.stderr
    assert "Use target pytorchjob, or set nodes instead of elastic" in done.stderr


def test_a_job_that_does_not_move_there_is_refused_by_name(place: Repository) -> None:
    place.write("prod/environment.yaml", BOTH.replace("trainjob: {", "jobset: {}, trainjob: {"))
    place.job("prod/elastic", "elastic: {minNodes: 1, maxNodes: 4}\ntarget: pytorchjob\n")
    place.job("prod/there", "target: jobset\n")
    named = place.run("import", "--to", "jobset", "prod/elastic", "prod/there")
    assert named.exit_code == 1, named.output
    refused = "prod/elastic: refused: jobs of target pytorchjob move to trainjob, and not to jobset"
    assert refused in named.stderr
    assert "prod/there" not in named.stderr
    assert "0 moved, 1 refused" in named.stderr
    for pattern in ("prod", "prod/*"):
        all_of_them = place.run("import", "--to", "jobset", pattern)
        assert all_of_them.exit_code == 0, all_of_them.output
        assert "0 moved, 0 refused" in all_of_them.stderr


def test_an_elastic_job_of_one_size_has_that_many_nodes(place: Repository) -> None:
    own = "elastic: {minNodes: 3, maxNodes: 3}\nretries: 2\n"
    path = place.job("prod/elastic", own)
    path.write_text(path.read_text("utf-8").replace("nodes: 2\n", ""), "utf-8")
    done = place.run(*MOVE, "prod/elastic")
    assert done.exit_code == 0, done.output
    assert "elastic (pytorchjob): its range is one size, 3 nodes" in done.stderr
    spec = yaml.safe_load(path.read_bytes())
    assert (spec["nodes"], spec["target"], "elastic" in spec) == (3, "trainjob", False)
    assert place.run("render", "prod/elastic").exit_code == 0


def test_a_name_of_its_own_pod_moves(place: Repository) -> None:
    place.job("prod/named", "env: {POD_NAME: {field: metadata.name}}\n")
    done = place.run(*MOVE, "prod/named")
    assert done.exit_code == 0, done.output


def test_what_the_old_minor_cannot_say_is_refused(place: Repository) -> None:
    environment = BOTH.replace('"2.3"', '"2.1", runtime: torch-distributed')
    place.write("prod/environment.yaml", environment)
    place.job("prod/llm", "retries: 3\n")
    done = place.run(*MOVE, "prod/llm", "--dry-run")
    assert done.exit_code == 1
    assert "a job cannot set retries in a runtime of the cluster" in done.stderr


def test_a_cluster_without_the_successor_is_named(place: Repository) -> None:
    place.write("prod/environment.yaml", ENVIRONMENT)
    place.job("prod/llm")
    done = place.run(*MOVE, "prod", "--dry-run")
    assert done.exit_code == 2
    assert "trainjob is not installed in prod" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_jobs_of_other_targets_and_migrated_ones_are_passed_over(place: Repository) -> None:
    place.write("prod/environment.yaml", BOTH.replace("}}", "}, job: {}}"))
    place.job("prod/there", "target: trainjob\n")
    place.job("prod/alone", "target: job\n")
    done = place.run(*MOVE, "prod", "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert "0 to move" in done.stderr


def test_a_target_that_a_base_says_is_set_in_the_job(place: Repository) -> None:
    base = place.job("base/common", "target: pytorchjob\n")
    path = place.write(
        "prod/jobs/llm.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\nextends: base/common\n",
    )
    before = base.read_bytes()
    assert place.run(*MOVE, "prod/llm").exit_code == 0
    assert path.read_text().endswith("extends: base/common\ntarget: trainjob\n")
    assert base.read_bytes() == before


def test_a_diff_shows_no_credential(place: Repository) -> None:
    place.job("prod/llm", "env: {DB_PASSWORD: hunter22x}\ntarget: pytorchjob\n")
    done = place.run(*MOVE, "prod", "--dry-run")
    assert "+target: trainjob" in done.stdout
    assert "hunter22x" not in done.output


def test_a_broken_job_is_refused_and_the_others_are_moved(place: Repository) -> None:
    place.job("prod/broken", "procsPerNode: many\n")
    place.job("prod/llm")
    done = place.run(*MOVE, "prod", "--dry-run")
    assert done.exit_code == 1
    assert "run `trainwright check prod/broken`" in done.stderr
    assert "1 to move, 1 refused" in done.stderr
    assert "Traceback" not in done.output


def test_jobs_move_to_the_next_generation_and_between_what_makes_job_sets() -> None:
    assert {old: new.name for old, new in successors().items()} == {
        "PyTorchJob": "trainjob",
        "JobSet": "trainjob",
        "TrainJob": "jobset",
    }


ROLES = """\
roles:
  judge: {entrypoint: {script: serve.py}, port: 8000, ready: {path: /health}}
  tool: {nodes: 2, entrypoint: {argv: [serve-tools]}}
flags: {judge: "${{ roles.judge.url }}"}
"""


@pytest.mark.parametrize(("old", "new"), [("jobset", "trainjob"), ("trainjob", "jobset")])
def test_a_job_with_roles_moves_between_what_makes_job_sets(
    old: str, new: str, place: Repository
) -> None:
    place.write("prod/environment.yaml", BOTH.replace("}}", "}, jobset: {}}"))
    path = place.job("prod/grpo", f"{ROLES}target: {old}\n")
    done = place.run("import", "--to", new, "prod")
    assert done.exit_code == 0, done.output
    assert "1 moved, 0 refused" in done.stderr
    assert path.read_text().endswith(f"target: {new}\n")


def test_roles_that_an_old_trainer_cannot_await_stay_where_they_are(place: Repository) -> None:
    environment = BOTH.replace('"2.3"', '"2.0"').replace("}}", "}, jobset: {}}")
    place.write("prod/environment.yaml", environment)
    path = place.job("prod/grpo", f"{ROLES}target: jobset\n")
    before = path.read_bytes()
    done = place.run(*MOVE, "prod")
    assert done.exit_code == 1
    assert "prod/grpo: refused: trainjob: what trains waits for 2 roles" in done.stderr
    assert path.read_bytes() == before


def test_the_pods_of_a_runtime_that_is_not_known_stay_where_they_are(place: Repository) -> None:
    environment = BOTH.replace('"2.3"', '"2.3", runtime: torch').replace("}}", "}, jobset: {}}")
    place.write("prod/environment.yaml", environment)
    place.job("prod/lent", "target: trainjob\ngracePeriod: 30s\n")
    done = place.run("import", "--to", "jobset", "prod")
    assert done.exit_code == 1
    assert "prod/lent: refused: " in done.stderr
    assert "which is not among the manifests" in done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--to", "job", "prod"), 'no jobs move to "job"; they do to jobset, trainjob'),
        (("--to", "trainjob"), "name the jobs to move: ENV or ENV/JOB"),
        (("--to", "trainjob", "prod", "--pool", "h100"), "--to moves specs, and takes no --pool"),
        (("job.yaml",), "Missing option '--env'"),
    ],
)
def test_what_does_not_go_together_is_refused(
    words: tuple[str, ...], complaint: str, place: Repository
) -> None:
    done = place.run("import", *words)
    assert done.exit_code == 2
    assert complaint in done.stderr
