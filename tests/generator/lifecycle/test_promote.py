"""A job brought from one environment to another: what moves, what stays, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from git_repository import git
from repository import Repository

HEAD = "# yaml-language-server: $schema=../../../schemas/job.schema.json\napiVersion: trainwright.io/v1alpha1\nkind: JobSpec\n"  # fmt: skip
DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
BASE = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
flags: {epochs: 1, lr: 0.1}
resources: {cpu: "1", memory: 1Gi}
"""
DEV = f"""\
{HEAD}name: llm
extends: base/llm
image: {{tag: "1234567", digest: "{DIGEST}"}}
entrypoint: {{script: null, module: train.llm}}
flags: {{epochs: 3, warmup: 100, lr: null}}
env: {{MODE: small}}
nodes: 1
"""
STAGING = f"""\
{HEAD}name: llm
extends: base/llm
# Two nodes, since one is not like production.
nodes: 2   # at most
image:
  tag: "1.1" # promoted by hand
  pullPolicy: Always
flags:
  epochs: 2
  # only here
  seed: 7
maxDuration: 4h
"""


@pytest.fixture
def jobs(repository: Repository) -> Repository:
    repository.environment("staging")
    repository.write("base/jobs/llm.yaml", BASE)
    repository.write("dev/jobs/llm.yaml", DEV)
    repository.write("staging/jobs/llm.yaml", STAGING)
    assert repository.run("render").exit_code == 0
    git(repository.root, "add", "--all")
    git(repository.root, "commit", "--quiet", "--message", "Jobs")
    return repository


def staging(repository: Repository) -> Path:
    return repository.root / "environments/staging/jobs/llm.yaml"


def explained(repository: Repository, job: str) -> dict[str, object]:
    import json

    result = repository.run("explain", job, "-o", "json")
    return {item["path"]: item["value"] for item in json.loads(result.stdout)["items"]}


def test_image_code_and_flags_move_and_nothing_else(jobs: Repository) -> None:
    before = explained(jobs, "staging/llm")
    result = jobs.run("promote", "llm", "--from", "dev", "--to", "staging")
    assert result.exit_code == 0, result.output
    assert staging(jobs).read_text() == STAGING.replace(
        '  tag: "1.1" # promoted by hand\n  pullPolicy: Always\n',
        f'  tag: "1234567" # promoted by hand\n  pullPolicy: Always\n  digest: "{DIGEST}"\n',
    ).replace(
        "  epochs: 2\n  # only here\n  seed: 7\nmaxDuration: 4h\n",
        "  epochs: 3\n  # only here\n  lr: null\n  warmup: 100\nmaxDuration: 4h\n"
        "entrypoint: {script: null, module: train.llm}\n",
    )
    source, after = explained(jobs, "dev/llm"), explained(jobs, "staging/llm")
    moved = ("image.repository", "image.tag", "image.digest", "entrypoint.", "flags.")
    for path in {*source, *after}:
        other = source if path.startswith(moved) else before
        assert after.get(path) == other.get(path), path
    assert isinstance(yaml.safe_load(staging(jobs).read_text())["image"]["tag"], str)
    assert jobs.run("render", "--check").exit_code == 0


def test_every_other_difference_is_said_without_secrets(jobs: Repository) -> None:
    jobs.write("dev/jobs/llm.yaml", DEV.replace("{MODE", "{HF_TOKEN: Abc-123-xyz, MODE"))
    result = jobs.run("promote", "llm", "--from", "dev", "--to", "staging", "--dry-run")
    assert result.stderr.splitlines() == [
        "dev/llm promoted to staging",
        "  env.HF_TOKEN: *** in dev, none in staging",
        '  env.MODE: "small" in dev, none in staging',
        '  image.pullPolicy: "IfNotPresent" in dev, "Always" in staging',
        '  maxDuration: none in dev, "4h" in staging',
        "  nodes: 1 in dev, 2 in staging",
        "(dry run: nothing was written)",
    ]
    assert staging(jobs).read_text() == STAGING


def test_promoting_again_changes_nothing(jobs: Repository) -> None:
    arguments = ("promote", "llm", "--from", "dev", "--to", "staging", "--commit")
    assert jobs.run(*arguments).exit_code == 0
    text = staging(jobs).read_text()
    again = jobs.run(*arguments)
    assert again.exit_code == 0
    assert again.stderr.startswith("dev/llm is in staging as it is in dev\n")
    assert staging(jobs).read_text() == text


def test_only_some_of_it(jobs: Repository) -> None:
    only = ("promote", "dev/llm", "--from", "dev", "--to", "staging", "--only")
    assert jobs.run(*only, "image,code").exit_code == 2
    assert jobs.run(*only, "image").exit_code == 0
    assert staging(jobs).read_text() == STAGING.replace(
        '  tag: "1.1" # promoted by hand\n  pullPolicy: Always\n',
        f'  tag: "1234567" # promoted by hand\n  pullPolicy: Always\n  digest: "{DIGEST}"\n',
    )


def test_a_tag_alone_does_not_reach_a_place_that_wants_digests(jobs: Repository) -> None:
    jobs.environment("prod", "images: {requireDigest: true}\n")
    path = jobs.write("prod/jobs/llm.yaml", DEV)
    jobs.write("dev/jobs/llm.yaml", DEV.replace(f', digest: "{DIGEST}"', ""))
    result = jobs.run("promote", "llm", "--from", "dev", "--to", "prod")
    assert result.exit_code == 2
    assert "`trainwright pin dev/llm` first" in result.stderr
    assert path.read_text() == DEV


def test_a_job_that_is_not_there_yet_begins_with_what_both_inherit(jobs: Repository) -> None:
    staging(jobs).unlink()
    result = jobs.run("promote", "llm", "--from", "dev", "--to", "staging")
    assert result.exit_code == 0, result.output
    assert staging(jobs).read_text() == (
        f"{HEAD}name: llm\nextends: base/llm\n"
        f'image: {{tag: "1234567", digest: "{DIGEST}"}}\n'
        "entrypoint: {script: null, module: train.llm}\n"
        "flags: {epochs: 3, lr: null, warmup: 100}\n"
    )
    assert jobs.run("render", "--check").exit_code == 0


def test_a_job_that_shares_nothing_is_refused_with_what_to_do(jobs: Repository) -> None:
    result = jobs.run("promote", "mnist", "--from", "dev", "--to", "staging")
    assert result.exit_code == 2
    assert "move that to environments/base/jobs/mnist.yaml" in result.stderr


def test_nowhere_and_nothing_are_one_line(jobs: Repository) -> None:
    for arguments in (
        ("llm", "--from", "dev", "--to", "stagging"),
        ("lln", "--from", "dev", "--to", "staging"),
        ("llm", "--from", "dev", "--to", "dev"),
    ):
        result = jobs.run("promote", *arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.stderr


def test_several_jobs_in_one_commit(jobs: Repository) -> None:
    jobs.write("base/jobs/bert.yaml", BASE.replace("llm", "bert"))
    for environment in ("dev", "staging"):
        jobs.write(f"{environment}/jobs/bert.yaml", DEV.replace("llm", "bert"))
    path = jobs.root / "environments/dev/jobs/bert.yaml"
    path.write_text(path.read_text().replace(DIGEST, OTHER))
    assert jobs.run("render").exit_code == 0
    git(jobs.root, "add", "--all")
    git(jobs.root, "commit", "--quiet", "--message", "Another")
    arguments = ("promote", "llm", "bert", "--from", "dev", "--to", "staging", "--commit")
    result = jobs.run(*arguments)
    assert result.exit_code == 0, result.output
    assert git(jobs.root, "show", "-s", "--format=%s") == "Promote dev/bert, dev/llm"
    assert git(jobs.root, "status", "--porcelain") == ""
    assert OTHER in (jobs.root / "environments/staging/jobs/bert.yaml").read_text()


def test_code_that_is_written_in_the_spec_moves_as_people_wrote_it(jobs: Repository) -> None:
    script = "entrypoint:\n  script: null\n  inline: |\n    import torch\n\n    print(torch)\n"
    jobs.write("dev/jobs/llm.yaml", DEV.replace("entrypoint: {script: null, module: train.llm}\n", script))  # fmt: skip
    old = script.replace("print(torch)", "print(1)")
    jobs.write("staging/jobs/llm.yaml", STAGING + old)
    result = jobs.run("promote", "llm", "--from", "dev", "--to", "staging", "--only", "entrypoint")
    assert result.exit_code == 0, result.output
    assert staging(jobs).read_text() == STAGING + script


RUN = """\
code: {git: {url: "https://git.example.com/a.git", commit: a111111111111111111111111111111111111111}}
launcher: torchrun
launcherOptions: {max-restarts: 3}
flagStyle: --k v
files:
  /etc/ds.json: {content: "{}"}
  /etc/only-dev.json: {content: "{}"}
"""
STAGED = """\
code: {git: {url: "https://git.example.com/a.git", commit: a222222222222222222222222222222222222222}}
files:
  /etc/ds.json: {content: "[]"}
  /etc/old.json: {content: "[]"}
"""


def test_what_is_run_moves_with_how_it_is_started(jobs: Repository) -> None:
    """Another commit, launcher or way to write flags would be another program than the proved."""
    jobs.environment("staging", "defaults: {files: {/etc/site.conf: {content: a}}}\n")
    jobs.environment("dev", "defaults: {files: {/etc/dev.conf: {content: a}}}\n")
    jobs.write("dev/jobs/llm.yaml", DEV + RUN)
    jobs.write("staging/jobs/llm.yaml", STAGING + STAGED)
    result = jobs.run("promote", "llm", "--from", "dev", "--to", "staging", "--no-render")
    assert result.exit_code == 0, result.output
    moved = yaml.safe_load(staging(jobs).read_text())
    assert {key: moved[key] for key in ("launcher", "launcherOptions", "flagStyle", "code")} == {
        key: value for key, value in yaml.safe_load(RUN).items() if key != "files"
    }
    assert moved["files"] == yaml.safe_load(RUN)["files"]
    paths = set(explained(jobs, "staging/llm"))
    assert any("site.conf" in path for path in paths)  # the environment's own
    assert not any("dev.conf" in path or "old.json" in path for path in paths)


def test_only_the_files(jobs: Repository) -> None:
    jobs.write("dev/jobs/llm.yaml", DEV + RUN)
    only = ("promote", "llm", "--from", "dev", "--to", "staging", "--only", "files", "--no-render")
    first = jobs.run(*only)
    assert first.exit_code == 0, first.output
    files = {"files": yaml.safe_load(RUN)["files"]}
    assert yaml.safe_load(staging(jobs).read_text()) == yaml.safe_load(STAGING) | files
    again = jobs.run(*only)
    assert again.exit_code == 0
    assert "code.git" in again.stderr


POOLS = """\
pools:
  NAME-h100: {resource: nvidia.com/gpu, gpusPerNode: 8}
  NAME-a100: {resource: nvidia.com/gpu, gpusPerNode: 8}
  NAME-cpu: {}
queueing: kueue
queues: {NAME-team: {}, NAME-other: {}}
"""
PLACED = f"{HEAD}name: placed\nextends: base/placed\n"


@pytest.fixture
def placed(repository: Repository) -> Repository:
    """A job whose base names a pool and a queue that only `dev` has."""
    for name in ("dev", "staging"):
        repository.environment(name, POOLS.replace("NAME", name))
    base = BASE.replace("name: llm", "name: placed").replace("memory: 1Gi", "memory: 1Gi, gpu: 8")
    repository.write("base/jobs/placed.yaml", f"{base}pool: dev-h100\nqueue: dev-team\n")
    repository.write("dev/jobs/placed.yaml", PLACED)
    assert repository.run("render").exit_code == 0
    git(repository.root, "add", "--all")
    git(repository.root, "commit", "--quiet", "--message", "Jobs")
    return repository


def test_a_pool_and_a_queue_that_only_the_source_has(placed: Repository) -> None:
    promote = ("promote", "dev/placed", "--to", "staging")
    result = placed.run(*promote)
    assert result.exit_code == 2
    assert result.stderr == (
        'trainwright: dev/placed is not promoted: staging has no pool "dev-h100"; it has staging-h100, '
        "staging-a100, staging-cpu: promote it with `--pool staging-h100`, which writes `pool: "
        "staging-h100` into environments/staging/jobs/placed.yaml\n"
    )
    result = placed.run(*promote, "--pool", "staging-a100")
    assert result.exit_code == 2
    assert 'staging has no queue "dev-team"; it has staging-team, staging-other: ' in result.stderr
    assert "`--queue staging-team`" in result.stderr
    assert not (placed.root / "environments/staging/jobs/placed.yaml").exists()
    result = placed.run(*promote, "--pool", "staging-a100", "--queue", "staging-team")
    assert result.exit_code == 0, result.output
    written = (placed.root / "environments/staging/jobs/placed.yaml").read_text()
    assert written == f"{PLACED}pool: staging-a100\nqueue: staging-team\n"
    assert placed.run("check").exit_code == 0
    # From now on the pool is the environment's own, and promoting again asks for none.
    assert placed.run(*promote).exit_code == 0


def test_gpus_without_a_pool_need_one(placed: Repository) -> None:
    base = placed.root / "environments/base/jobs/placed.yaml"
    base.write_text(base.read_text().replace("pool: dev-h100\nqueue: dev-team\n", ""))
    placed.write("dev/jobs/placed.yaml", f"{PLACED}pool: dev-h100\n")
    result = placed.run("promote", "placed", "--from", "dev", "--to", "staging")
    assert result.exit_code == 2
    assert "its 8 GPUs need a pool of staging; it has staging-h100, " in result.stderr
    assert "`--pool staging-h100`" in result.stderr
    result = placed.run("promote", "dev/placed", "--to", "staging", "--pool", "staging-h10")
    assert result.exit_code == 2
    assert 'staging has no pool "staging-h10"; it has staging-h100, ' in result.stderr


def test_an_environment_without_pools_gets_one_first(placed: Repository) -> None:
    placed.environment("staging")
    result = placed.run("promote", "dev/placed", "--to", "staging")
    assert result.exit_code == 2
    assert (
        'staging has no pool "dev-h100"; declare it under `pools` in '
        "environments/staging/environment.yaml"
    ) in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("llm", "--to", "staging"), "which environment? Write ENV/llm, or give --from"),
        (
            ("staging/llm", "--from", "dev", "--to", "staging"),
            "staging/llm is not in dev, which --from names",
        ),
        (("dev/llm", "--to", "dev"), "is the environment it comes from"),
    ],
)
def test_where_a_job_comes_from(jobs: Repository, arguments: tuple[str, ...], said: str) -> None:
    result = jobs.run("promote", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_the_name_of_a_job_says_where_it_comes_from(jobs: Repository) -> None:
    result = jobs.run("promote", "dev/llm", "--to", "staging", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "dev/llm promoted to staging" in result.stderr
