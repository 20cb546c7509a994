"""Files that travel with a run: what is rendered of them, what starts another run, what is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import git_repository as git
from repository import Repository, launcher
from trainwright.files.tree import Folder
from trainwright.kinds import TARGETS
from trainwright.render.incremental import IncrementalCheck
from trainwright.runs.workspace import Workspace

EXAMPLE = Path(__file__).parents[2] / "docs/examples/config-files"
TEXT = "stage: 2\nname: ünï\n"
BYTES = b"\x00\x01\xff"
TOKEN = "hf_" + "aB3" * 12  # by its form


def _put(repository: Repository, path: str, content: str | bytes) -> None:
    full = repository.root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(content.encode() if isinstance(content, str) else content)


def _rendered(repository: Repository, job: str = "dev/mnist", *options: str) -> dict[str, Any]:
    """What is rendered for a job, by the name of the file."""
    done = repository.run("render", *options)
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments" / job.replace("/", "/rendered/")
    return {
        path.name: yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        for path in folder.iterdir()
    }


def _name(repository: Repository, job: str = "dev/mnist") -> str:
    path = repository.root / "environments" / job.replace("/", "/rendered/") / "run.lock"
    return str(json.loads(path.read_text())["object"])


def _refused(repository: Repository) -> str:
    done = repository.run("check", "--no-cache")
    assert done.exit_code == 1, done.output
    return done.output


def test_files_are_an_immutable_config_map_of_the_run(repository: Repository) -> None:
    _put(repository, "configs/ds.yaml", TEXT)
    _put(repository, "configs/tokenizer.bin", BYTES)
    repository.job(
        "dev/mnist",
        """\
files:
  /etc/train/ds.yaml: {from: configs/ds.yaml}
  /etc/train/tokenizer.bin: {from: configs/tokenizer.bin}
  /etc/other/ds.yaml: {content: "a: 1"}
  /usr/local/bin/prepare: {content: "#!/bin/sh\\ntrue\\n", mode: "0755"}
""",
    )
    rendered = _rendered(repository)
    config = rendered["configmap.yaml"]
    assert config["immutable"] is True
    assert config["metadata"]["name"] == _name(repository)
    (template, _) = rendered["pytorchjob.yaml"]["spec"]["pytorchReplicaSpecs"].values()
    pod = template["template"]["spec"]
    (volume,) = [v for v in pod["volumes"] if "configMap" in v]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    modes = {item["key"]: item.get("mode") for item in volume["configMap"]["items"]}
    mounts = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == volume["name"]]
    assert all(mount["readOnly"] for mount in mounts)
    keys = {mount["mountPath"]: mount["subPath"] for mount in mounts}
    texts = {path: config["data"][key] for path, key in keys.items() if key in config["data"]}
    assert texts == {
        "/etc/train/ds.yaml": TEXT,
        "/etc/other/ds.yaml": "a: 1",
        "/usr/local/bin/prepare": "#!/bin/sh\ntrue\n",
    }
    binary = {keys["/etc/train/tokenizer.bin"]: base64.b64encode(BYTES).decode()}
    assert config["binaryData"] == binary
    assert modes[keys["/usr/local/bin/prepare"]] == 0o755
    assert modes[keys["/etc/other/ds.yaml"]] is None


def test_a_script_in_the_spec_is_a_file_beside_the_others(repository: Repository) -> None:
    path = repository.job("dev/mnist", 'files: {/srv/main.py: {content: "pass\\n"}}\n')
    path.write_text(path.read_text().replace("{script: train.py}", '{inline: "print(1)\\n"}'))
    config = _rendered(repository)["configmap.yaml"]
    assert config["data"]["main.py"] == "print(1)\n"
    assert sorted(config["data"].values()) == ["pass\n", "print(1)\n"]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_carries_text(target: str, repository: Repository) -> None:
    from normal_forms import normal_form
    from trainwright.render import objects

    version = ': {version: "1.9", restrictedInitContainer: true}' if target == "pytorchjob" else ""
    version = ': {version: "2.3"}' if target == "trainjob" else version or ": {}"
    path = repository.environment("dev")
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if "targets" not in line)
        + f"targets: {{{target}{version}}}\ndefaults: {{target: {target}}}\n"
    )
    _put(repository, "configs/ds.yaml", TEXT + "price: 5$\n")
    job = repository.job("dev/mnist", "files: {/etc/ds.yaml: {from: configs/ds.yaml}}\n")
    text = job.read_text().replace("nodes: 2\n", "").replace("maxDuration: 2h\n", "")
    job.write_text(f"{text}security: {{runAsUser: 1000}}\n{launcher(target)}")
    assert repository.run("render").exit_code == 0
    folder = repository.root / "environments/dev/rendered/mnist"
    files = {p.name: p.read_text() for p in folder.iterdir() if p.suffix == ".yaml"}
    form = normal_form(objects.manifests(files, target))
    assert form.pods[0].files == {"/etc/ds.yaml": TEXT + "price: 5$\n"}


def test_a_compose_file_holds_text_only(repository: Repository) -> None:
    repository.environment("dev", "pools: {}\n").write_text(
        (repository.root / "environments/dev/environment.yaml")
        .read_text()
        .replace('pytorchjob: {version: "1.9", restrictedInitContainer: true}', "compose: {}")
    )
    _put(repository, "tok.bin", BYTES)
    job = repository.job("dev/mnist", "target: compose\nfiles: {/etc/tok: {from: tok.bin}}\n")
    job.write_text(job.read_text().replace("nodes: 2\n", "").replace("maxDuration: 2h\n", ""))
    assert "compose: a compose file holds text only" in _refused(repository)


# --- what starts another run ---------------------------------------------------------------------


def test_an_edit_of_a_file_of_the_job_starts_a_run(repository: Repository) -> None:
    _put(repository, "configs/ds.yaml", TEXT)
    repository.job("dev/mnist", "files: {/etc/ds.yaml: {from: configs/ds.yaml}}\n")
    _rendered(repository)
    before = _name(repository)
    assert repository.run("render", "--check").exit_code == 0
    _put(repository, "configs/ds.yaml", TEXT + "more: 1\n")
    assert repository.run("render", "--check").exit_code == 1
    assert _rendered(repository)["configmap.yaml"]["data"]["ds.yaml"] == TEXT + "more: 1\n"
    assert _name(repository) != before


@pytest.mark.parametrize("layer", ["base", "environment", "pool", "defaults"])
def test_an_edit_of_a_file_that_jobs_share_is_held(layer: str, repository: Repository) -> None:
    _put(repository, "configs/ds.yaml", TEXT)
    files = "files: {/etc/ds.yaml: {from: configs/ds.yaml}}"
    head = "apiVersion: trainwright.io/v1alpha1\nkind: {}\n"
    repository.job("dev/mnist", "extends: base/mnist\n" if layer == "base" else "")
    if layer == "base":
        repository.write("base/jobs/mnist.yaml", head.format("JobSpec") + f"name: mnist\n{files}\n")
    elif layer == "environment":
        repository.environment("dev", f"defaults: {{{files}}}\n")
    elif layer == "pool":
        repository.environment("dev", f"pools: {{p: {{defaults: {{{files}}}}}}}\n")
        repository.job("dev/mnist", "pool: p\n")
    else:
        repository.write("defaults.yaml", head.format("Defaults") + f"defaults: {{{files}}}\n")
    _rendered(repository)
    before = repository.tree()
    _put(repository, "configs/ds.yaml", "other: 1\n")
    _rendered(repository)
    assert repository.tree() == before
    listed = repository.run("list", "jobs").output
    assert "files" in listed
    assert repository.run("rerun", "dev/mnist").exit_code == 0
    assert _rendered(repository)["configmap.yaml"]["data"]["ds.yaml"] == "other: 1\n"


@pytest.mark.parametrize("layer", ["job", "base", "pool"])
def test_rerun_announces_the_run_that_is_rendered(layer: str, repository: Repository) -> None:
    """It passes over runs that have finished, which their files are part of."""
    _put(repository, "s.sh", "true\n")
    files = "files: {/etc/x: {from: s.sh}}"
    if layer == "base":
        head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: mnist\n"
        repository.write("base/jobs/mnist.yaml", f"{head}{files}\n")
    elif layer == "pool":
        repository.environment("dev", f"pools: {{p: {{defaults: {{{files}}}}}}}\n")
    extra = {"job": f"{files}\n", "base": "extends: base/mnist\n", "pool": "pool: p\n"}[layer]
    job = repository.job("dev/mnist", extra)
    _rendered(repository)
    first = job.read_text()
    for number in (2, 3):
        before = _name(repository)
        done = repository.run("rerun", "dev/mnist")
        assert done.exit_code == 0, done.output
        assert f"runs again: {_name(repository)} instead of {before}\n" in done.stderr
        assert job.read_text() == f"{first}run: {number}\n"
        assert repository.run("retire", "dev/mnist").exit_code == 0
    job.write_text(first)
    assert repository.run("rerun", "dev/mnist").exit_code == 0
    assert job.read_text() == f"{first}run: 4\n"


def test_promote_compares_the_files_of_both_jobs(repository: Repository) -> None:
    _put(repository, "a.yaml", TEXT)
    _put(repository, "b.yaml", "other: 1\n")
    repository.environment("prod")
    for name, file in (
        ("dev/mnist", "a"),
        ("prod/mnist", "a"),
        ("dev/llm", "a"),
        ("prod/llm", "b"),
    ):
        seed = f"flags: {{seed: {len(name)}}}\n"
        repository.job(name, f"files: {{/etc/ds.yaml: {{from: {file}.yaml}}}}\n{seed}")
    _rendered(repository)
    same = repository.run("promote", "dev/mnist", "--from", "dev", "--to", "prod")
    assert same.exit_code == 0, same.output
    assert "files" not in same.stderr
    to_prod = ("promote", "dev/llm", "--from", "dev", "--to", "prod")
    other = repository.run(*to_prod, "--only", "image").stderr
    assert '"a.yaml" in dev, "b.yaml" in prod' in other
    assert "none in prod" not in other
    assert repository.run(*to_prod).exit_code == 0
    moved = repository.root / "environments/prod/jobs/llm.yaml"
    assert "files: {/etc/ds.yaml: {from: a.yaml}}" in moved.read_text()


def test_where_the_bytes_are_written_makes_no_difference(repository: Repository) -> None:
    _put(repository, "a.yaml", TEXT)
    job = repository.job("dev/mnist", "files: {/etc/ds.yaml: {from: a.yaml}}\n")
    _rendered(repository)
    before = _name(repository)
    (repository.root / "a.yaml").rename(repository.root / "b.yaml")
    job.write_text(job.read_text().replace("from: a.yaml", "from: b.yaml"))
    _rendered(repository)
    assert _name(repository) == before
    written = "{content: " + json.dumps(TEXT) + "}"
    job.write_text(job.read_text().replace("{from: b.yaml}", written))
    _rendered(repository)
    assert _name(repository) == before


def test_a_run_goes_on_with_its_bytes_while_it_is_suspended(repository: Repository) -> None:
    _put(repository, "configs/ds.yaml", TEXT)
    base = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: mnist\n"
    base += "files: {/etc/ds.yaml: {from: configs/ds.yaml}}\n"
    repository.write("base/jobs/mnist.yaml", base)
    repository.job("dev/mnist", "extends: base/mnist\n")
    _rendered(repository)
    before = _name(repository)
    _put(repository, "configs/ds.yaml", "other: 1\n")
    assert repository.run("suspend", "dev/mnist").exit_code == 0
    rendered = _rendered(repository)
    assert _name(repository) == before
    assert rendered["pytorchjob.yaml"]["spec"]["runPolicy"]["suspend"] is True
    assert rendered["configmap.yaml"]["data"]["ds.yaml"] == TEXT


def test_the_cache_notices_another_file(repository: Repository) -> None:
    _put(repository, "configs/ds.yaml", TEXT)
    repository.job("dev/mnist", "files: {/etc/ds.yaml: {from: configs/ds.yaml}}\n")
    assert repository.run("check").exit_code == 0
    _put(repository, "configs/ds.yaml", f"token: {TOKEN}\n")
    assert repository.run("check").exit_code == 1
    (repository.root / "configs/ds.yaml").unlink()
    assert "configs/ds.yaml does not exist" in repository.run("check").output
    _put(repository, "configs/ds.yaml", TEXT)
    assert repository.run("check").exit_code == 0


def test_the_plan_shows_the_jobs_of_a_file_that_changed(repository: Repository) -> None:
    root = git.init(repository.root)
    _put(repository, "configs/own file.yaml", TEXT)
    _put(repository, "configs/shared.yaml", TEXT)
    repository.job("dev/mnist", "files: {/etc/own.yaml: {from: configs/own file.yaml}}\n")
    repository.environment("qa", "defaults: {files: {/etc/ds.yaml: {from: configs/shared.yaml}}}\n")
    repository.job("qa/bert")
    repository.job("qa/other")
    _rendered(repository)
    git.commit(root)
    _put(repository, "configs/own file.yaml", "other: 1\n")
    shown = repository.run("plan", "--against", "HEAD", "-o", "json")
    assert shown.exit_code in (0, 1), shown.output
    (change,) = json.loads(shown.stdout)["plan"]["changes"]
    assert (change["job"], change["action"]) == ("dev/mnist", "new run")
    assert change["causes"][0]["place"]["file"] == "configs/own file.yaml"
    git.git(root, "checkout", "--quiet", ".")
    _put(repository, "configs/shared.yaml", "other: 1\n")
    shown = repository.run("plan", "--against", "HEAD")
    assert "configs/shared.yaml outdates 2 runs: " in shown.output


# --- what is refused -----------------------------------------------------------------------------

NOT_THERE = {
    "configs/mising.yaml": "configs/mising.yaml does not exist",
    "configs/linked.yaml": "configs/linked.yaml is a symbolic link",
    "outside/passwd": "outside is a symbolic link",
    ".git/config": ".git/config is git's own",
}


@pytest.mark.parametrize("path", NOT_THERE)
def test_what_cannot_be_used_is_said_at_the_line(
    path: str, repository: Repository, tmp_path: Path
) -> None:
    _put(repository, ".git/config", "[remote]\n")
    _put(repository, "configs/there.yaml", TEXT)
    (repository.root / "configs/linked.yaml").symlink_to("there.yaml")
    (repository.root / "outside").symlink_to("/etc")
    job = repository.job("dev/mnist", f"files:\n  /etc/ds.yaml:\n    from: {path}\n")
    line = len(job.read_text().splitlines())
    output = _refused(repository)
    assert NOT_THERE[path] in output
    assert f"--> environments/dev/jobs/mnist.yaml:{line}:" in output


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "a/../../b", "./a", "a//b", ""])
def test_no_path_leaves_the_repository(path: str, repository: Repository) -> None:
    _put(repository, "../secret", f"token: {TOKEN}\n")
    repository.job("dev/mnist", f"files: {{/etc/ds.yaml: {{from: {json.dumps(path)}}}}}\n")
    output = _refused(repository)
    assert "TW010" in output
    assert TOKEN not in output


def test_a_pipe_is_not_waited_for(repository: Repository) -> None:
    os.mkfifo(repository.root / "pipe")
    repository.job("dev/mnist", "files: {/etc/ds.yaml: {from: pipe}}\n")
    assert "pipes, sockets and devices are not read" in _refused(repository)


def test_more_than_a_config_map_holds_is_refused_at_the_largest(repository: Repository) -> None:
    _put(repository, "big.txt", "x" * (1024 * 1024 - 9))
    repository.job("dev/mnist", 'files: {/a: {content: "0123456789"}, /b: {from: big.txt}}\n')
    assert "1048577 bytes, a ConfigMap holds 1048576: 1 too many" in _refused(repository)
    _put(repository, "big.txt", "x" * (1024 * 1024 - 10))
    config = _rendered(repository)["configmap.yaml"]
    assert len(config["data"]["b"]) + len(config["data"]["a"]) == 1024 * 1024
    # A client-side apply would keep a copy of it in an annotation, which takes 256 KiB.
    options = config["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
    assert options == "ServerSideApply=true"


def test_a_credential_in_a_file_is_found_where_the_file_is_named(repository: Repository) -> None:
    _put(repository, "configs/ds.yaml", f"run: ${{{{ run.name }}}}\nhub:\n  token: {TOKEN}\n")
    job = repository.job("dev/mnist", "files:\n  /etc/ds.yaml:\n    from: configs/ds.yaml\n")
    line = len(job.read_text().splitlines())
    output = _refused(repository)
    assert "error[TW710]: /etc/ds.yaml holds a Hugging Face token" in output
    assert f"environments/dev/jobs/mnist.yaml:{line}" in output
    assert TOKEN not in output


def test_a_credential_is_found_in_what_is_not_text(repository: Repository) -> None:
    _put(repository, "session.bin", b"\x00\x01" + TOKEN.encode() + b"\xff")
    repository.job("dev/mnist", "files: {/etc/session: {from: session.bin}}\n")
    output = _refused(repository)
    assert "error[TW710]: /etc/session holds a Hugging Face token" in output
    assert TOKEN not in output


def test_a_digest_holds_a_file_to_its_bytes(repository: Repository) -> None:
    _put(repository, "ds.yaml", TEXT)
    digest = f"sha256:{hashlib.sha256(TEXT.encode()).hexdigest()}"
    repository.job("dev/mnist", f"files: {{/etc/ds.yaml: {{from: ds.yaml, digest: '{digest}'}}}}\n")
    _rendered(repository)
    _put(repository, "ds.yaml", "other: 1\n")
    assert "ds.yaml is not the file with this digest, but sha256:" in _refused(repository)


def test_two_things_at_one_path_are_refused(repository: Repository) -> None:
    repository.job(
        "dev/mnist",
        "files: {/data: {content: a}}\nvolumes: {data: {claim: data, mountPath: /data/}}\n",
    )
    assert 'volumes.data and files["/data"] are both mounted at /data' in _refused(repository)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("/a: {content: a}, /a/b/c: {content: b}", 'files["/a/b/c"] is below files["/a"]'),
        ("/proc/a: {content: a}", 'files["/proc/a"] is in /proc'),
        ("/sys/fs/a: {content: a}", 'files["/sys/fs/a"] is in /sys'),
        ("/dev/a: {content: a}", 'files["/dev/a"] is in /dev'),
    ],
)
@pytest.mark.parametrize("target", ["job", "compose"])
def test_files_where_nothing_can_be_mounted(
    files: str, message: str, target: str, repository: Repository
) -> None:
    path = repository.environment("dev")
    path.write_text(f"{path.read_text().rpartition('targets')[0]}targets: {{{target}: {{}}}}\n")
    job = repository.job("dev/mnist", f"target: {target}\nfiles: {{{files}}}\n")
    output = _refused(repository)
    assert f"error[TW022]: {message}" in output
    assert f"environments/dev/jobs/mnist.yaml:{len(job.read_text().splitlines())}:" in output


def test_one_of_content_and_from(repository: Repository) -> None:
    _put(repository, "ds.yaml", TEXT)
    repository.job("dev/mnist", "files: {/a: {content: a, from: ds.yaml}, /b: {mode: '0644'}}\n")
    output = _refused(repository)
    assert output.count("Write one of content, binaryData and from.") == 2


def test_a_reference_in_a_file_is_a_fact_of_the_run(repository: Repository) -> None:
    _put(repository, "a.yaml", "name: ${{ run.name }}\nnodes: ${{ nodes }}\nliteral: $${{ x }}\n")
    repository.job("dev/mnist", "files: {/etc/a.yaml: {from: a.yaml}}\n")
    config = _rendered(repository)["configmap.yaml"]
    shown = f"name: {_name(repository)}\nnodes: 2\nliteral: ${{{{ x }}}}\n"
    assert config["data"]["a.yaml"] == shown
    _put(repository, "a.yaml", "name: ${{ run.nam }}\n")
    output = _refused(repository)
    assert "there is no reference `${{ run.nam }}`" in output
    assert "environments/dev/jobs/mnist.yaml:10" in output
    _put(repository, "a.yaml", "name: a\nruns:\n  - ${{ run.nam }}\n")
    output = _refused(repository)
    assert "--> a.yaml:3:5\n" in output
    assert "environments/dev/jobs/mnist.yaml:10" in output


def test_a_credential_in_the_text_of_a_file_is_said_once(repository: Repository) -> None:
    repository.job("dev/mnist", f"files: {{/etc/a: {{content: 'token: {TOKEN}'}}}}\n")
    assert _refused(repository).count("TW710") == 1


def test_one_missing_file_of_a_shared_layer_is_one_finding(repository: Repository) -> None:
    repository.environment("prod", "defaults: {files: {/etc/a: {from: a.yaml}}}\n")
    output = _refused(repository)
    assert output.count("a.yaml does not exist") == 1
    assert "--> environments/prod/environment.yaml:6:" in output


# --- folders -------------------------------------------------------------------------------------


def _folder(repository: Repository) -> None:
    _put(repository, "configs/hydra/train.yaml", TEXT)
    _put(repository, "configs/hydra/optimizer/sgd.yaml", "lr: 0.1\n")
    _put(repository, "configs/hydra/optimizer/train.yaml", "")
    _put(repository, "configs/hydra/.hidden", "a\n")
    _put(repository, "configs/hydra/vocabulary.bin", BYTES)
    _put(repository, "configs/hydra/__pycache__/a.pyc", b"\0")
    _put(repository, "configs/hydra/.DS_Store", b"\0")


ALL = {
    "/etc/hydra/train.yaml": TEXT.encode(),
    "/etc/hydra/optimizer/sgd.yaml": b"lr: 0.1\n",
    "/etc/hydra/optimizer/train.yaml": b"",
    "/etc/hydra/.hidden": b"a\n",
    "/etc/hydra/vocabulary.bin": BYTES,
}


def _mounted(repository: Repository) -> dict[str, bytes]:
    """The bytes at each path of the container."""
    rendered = _rendered(repository)
    (template, _) = rendered["pytorchjob.yaml"]["spec"]["pytorchReplicaSpecs"].values()
    pod = template["template"]["spec"]
    config = rendered["configmap.yaml"]
    bodies = {key: text.encode() for key, text in config.get("data", {}).items()}
    bodies |= {key: base64.b64decode(raw) for key, raw in config.get("binaryData", {}).items()}
    mounts = pod["containers"][0]["volumeMounts"]
    return {m["mountPath"]: bodies[m["subPath"]] for m in mounts if m["name"].endswith("-files")}


def test_a_folder_is_every_file_of_it(repository: Repository) -> None:
    _folder(repository)
    repository.job("dev/mnist", "files: {/etc/hydra: {from: configs/hydra}}\n")
    assert _mounted(repository) == ALL


def test_a_mode_is_that_of_every_file(repository: Repository) -> None:
    _put(repository, "bin/a", "#!/bin/sh\n")
    _put(repository, "bin/b", "#!/bin/sh\n")
    repository.job("dev/mnist", 'files: {/opt/bin: {from: bin, mode: "0755"}}\n')
    (template, _) = _rendered(repository)["pytorchjob.yaml"]["spec"]["pytorchReplicaSpecs"].values()
    (volume,) = [v for v in template["template"]["spec"]["volumes"] if "configMap" in v]
    assert {item["mode"] for item in volume["configMap"]["items"]} == {0o755}


@pytest.mark.parametrize(
    "edit",
    [
        lambda root: (root / "configs/hydra/new.yaml").write_text("a: 1\n"),
        lambda root: (root / "configs/hydra/.hidden").unlink(),
        lambda root: (root / "configs/hydra/optimizer/sgd.yaml").write_text("lr: 0.2\n"),
        lambda root: (root / "configs/hydra/.hidden").rename(root / "configs/hydra/renamed"),
    ],
    ids=["added", "removed", "edited", "renamed"],
)
@pytest.mark.parametrize("cache", [(), ("--no-cache",)], ids=["cached", "cold"])
def test_a_folder_is_part_of_the_run(edit: Any, cache: Any, repository: Repository) -> None:
    _folder(repository)
    repository.job("dev/mnist", "files: {/etc/hydra: {from: configs/hydra}}\n")
    _rendered(repository, "dev/mnist", *cache)
    first = _name(repository)
    _rendered(repository, "dev/mnist", *cache)
    assert _name(repository) == first
    edit(repository.root)
    assert repository.run("render", "--check", *cache).exit_code == 1
    _rendered(repository, "dev/mnist", *cache)
    assert _name(repository) != first


def test_a_folder_of_a_shared_layer_is_held(repository: Repository) -> None:
    _folder(repository)
    repository.environment("dev", "defaults: {files: {/etc/hydra: {from: configs/hydra}}}\n")
    repository.job("dev/mnist")
    assert _mounted(repository) == ALL
    first = _name(repository)
    _put(repository, "configs/hydra/new.yaml", "a: 1\n")
    _put(repository, "configs/hydra/train.yaml", "other: 1\n")
    _rendered(repository)
    assert _name(repository) == first
    assert repository.run("rerun", "dev/mnist").exit_code == 0
    assert _mounted(repository)["/etc/hydra/new.yaml"] == b"a: 1\n"


def test_text_and_folder_of_the_same_bytes_are_one_run(repository: Repository) -> None:
    _put(repository, "configs/ds.yaml", TEXT)
    repository.job("dev/mnist", "files: {/etc/ds: {from: configs}}\n")
    _rendered(repository)
    first = _name(repository)
    repository.job("dev/mnist", f"files: {{/etc/ds/ds.yaml: {{content: {json.dumps(TEXT)}}}}}\n")
    _rendered(repository)
    assert _name(repository) == first


@pytest.mark.parametrize(
    ("own", "there"),
    [
        ("/etc/hydra: null", {}),
        ("/etc/hydra: {from: other}", {"/etc/hydra/train.yaml": b"b\n"}),
        ("/etc/hydra: {from: null, content: a}", {"/etc/hydra": b"a"}),
        ("/etc/hydra/train.yaml: null", {k: v for k, v in ALL.items() if k[11:] != "train.yaml"}),
    ],
)
def test_layers_above_change_and_remove_a_folder(
    own: str, there: dict[str, bytes], repository: Repository
) -> None:
    _folder(repository)
    _put(repository, "other/train.yaml", "b\n")
    repository.environment("dev", "defaults: {files: {/etc/hydra: {from: configs/hydra}}}\n")
    repository.job("dev/mnist", f"files: {{{own}, /x: {{content: x}}}}\n")
    assert _mounted(repository) == {**there, "/x": b"x"}


def test_what_of_a_folder_cannot_be_used_is_said_at_its_line(repository: Repository) -> None:
    (repository.root / "empty").mkdir()
    _put(repository, "odd/a:b", "x")
    _put(repository, "linked/a", "x")
    (repository.root / "linked/b").symlink_to("/etc/passwd")
    _put(repository, "big/a", "x" * (1024 * 1024 + 1))
    for folder, said in (
        ("empty", "empty is a folder without files"),
        ("odd", "odd has 'a:b', which cannot be mounted"),
        ("linked", "linked/b is a symbolic link"),
        ("big", "a ConfigMap holds 1048576"),
    ):
        job = repository.job("dev/mnist", f"files:\n  /etc/a:\n    from: {folder}\n")
        line = len(job.read_text().splitlines())
        output = _refused(repository)
        assert said in output
        assert any(f"mnist.yaml:{at}:" in output for at in (line, line - 1)), output
    digest = "0" * 64
    repository.job("dev/mnist", f"files: {{/etc/a: {{from: big, digest: sha256:{digest}}}}}\n")
    assert "big is a folder, and a digest is that of one file" in _refused(repository)


@pytest.mark.parametrize("content", ["another\n", None])
def test_what_is_not_the_file_of_a_digest_is_said_of_a_run_that_goes_on(
    content: str | None, repository: Repository
) -> None:
    _put(repository, "data.txt", "one\n")
    digest = hashlib.sha256(b"one\n").hexdigest()
    entry = f"{{from: data.txt, digest: sha256:{digest}}}"
    repository.job("dev/mnist", f"files: {{/etc/a: {entry}}}\n")
    _rendered(repository)
    if content is None:
        (repository.root / "data.txt").unlink()
    else:
        _put(repository, "data.txt", content)
    said = "data.txt is not the file with this digest" if content else "data.txt"
    assert said in _refused(repository)
    done = repository.run("render")
    assert (done.exit_code, said in done.output) == (1, True), done.output


def test_a_new_file_of_a_folder_is_an_edit_in_the_plan(repository: Repository) -> None:
    _folder(repository)
    repository.job("dev/mnist", "files: {/etc/hydra: {from: configs/hydra}}\n")
    git.init(repository.root)
    _rendered(repository)
    git.commit(repository.root)
    _put(repository, "configs/hydra/new.yaml", "other: 1\n")
    shown = repository.run("plan", "--against", "HEAD", "-o", "json")
    (change,) = json.loads(shown.stdout)["plan"]["changes"]
    assert (change["job"], change["action"]) == ("dev/mnist", "new run")
    assert change["causes"][0]["place"]["file"] == "configs/hydra/new.yaml"


@pytest.mark.parametrize(
    "source",
    [
        "environments",
        "environments/dev",
        "environments/dev/rendered",
        "environments/dev/rendered/mnist",
        "environments/dev/rendered/mnist/values.yaml",
        "environments/other/rendered",
        "environments/prod",
    ],
)
@pytest.mark.parametrize("rendered", [True, False], ids=["rendered", "new"])
def test_what_is_rendered_travels_with_no_run(
    source: str, rendered: bool, repository: Repository
) -> None:
    repository.environment("prod")
    repository.environment("dev")
    repository.job("dev/mnist")
    if rendered:
        _rendered(repository)
    job = repository.job("dev/mnist", f"files:\n  /etc/s:\n    from: {source}\n")
    line = len(job.read_text().splitlines())
    output = _refused(repository)
    assert f"error[TW029]: {source} " in output
    assert "has what is rendered" in output
    assert f"--> environments/dev/jobs/mnist.yaml:{line}:" in output


BESIDE_SPECS = ("environments/dev/scripts", "environments/conf", "environments/conf/deep er/a")


@pytest.mark.parametrize("source", BESIDE_SPECS)
@pytest.mark.parametrize("of", ["job", "defaults"])
def test_a_folder_beside_the_specs_is_seen_by_all_commands(
    source: str, of: str, repository: Repository
) -> None:
    _put(repository, f"{source}/run.sh", "a\n")
    named = f"files: {{/etc/s: {{from: {source}}}}}\n"
    repository.environment("dev", "" if of == "job" else f"defaults: {{{named.strip()}}}\n")
    repository.job("dev/mnist", named if of == "job" else "")
    git.init(repository.root)
    _rendered(repository)
    git.commit(repository.root)
    check = IncrementalCheck(Workspace(Folder(repository.root)))
    while check.stale:
        check.check(next(iter(check.stale)))
    for path, content in (("run.sh", "b\n"), ("deep/new.sh", "n\n")):
        _put(repository, f"{source}/{path}", content)
        check.edit({f"{source}/{path}"}, Folder(repository.root))
        assert [str(file) for file in check.stale] == ["dev/mnist"]
        check.check(next(iter(check.stale)))
    shown = repository.run("plan", "--against", "HEAD", "-o", "json")
    (change,) = json.loads(shown.stdout)["plan"]["changes"]
    assert change["job"] == "dev/mnist"
    assert repository.run("render", "--check").exit_code == (of == "job")


IGNORED = {
    "configs/hydra/.env": "KEY=a\n",
    "configs/hydra/optimizer/a.pyc": b"\0",
    "configs/hydra/.mypy_cache/3.13/a.json": "{}",
}


def _ignoring(repository: Repository, folder: Path) -> None:
    (folder / ".gitignore").write_text(".env\n*.pyc\n.mypy_cache/\n")
    _folder(repository)
    for path, content in IGNORED.items():
        _put(repository, path, content)
    repository.job("dev/mnist", "files: {/etc/hydra: {from: configs/hydra}}\n")


@pytest.mark.parametrize("inside", [".", "ml"])
def test_what_git_ignores_in_a_folder_travels_with_no_run(inside: str, tmp_path: Path) -> None:
    top = git.init(tmp_path / "top")
    repository = Repository(top / inside)
    repository.environment("dev")
    _ignoring(repository, top)
    _put(repository, "configs/hydra/kept.pyc", b"kept")
    git.git(top, "add", "--force", f"{inside}/configs/hydra/kept.pyc")
    assert _mounted(repository) == {**ALL, "/etc/hydra/kept.pyc": b"kept"}
    git.commit(top)
    shown = repository.run("plan", "--against", "HEAD", "-o", "json")
    assert json.loads(shown.stdout)["plan"]["changes"] == []
    git.git(tmp_path, "clone", "--quiet", str(top), "clone")
    clone = Repository(tmp_path / "clone" / inside)
    assert clone.run("render", "--check", "--no-cache").exit_code == 0


def test_the_cache_notices_what_git_begins_to_ignore(repository: Repository) -> None:
    git.init(repository.root)
    _ignoring(repository, repository.root)
    assert _mounted(repository) == ALL
    assert _mounted(repository) == ALL
    (repository.root / ".gitignore").unlink()
    assert _mounted(repository).keys() == {*ALL, *(f"/etc/{path[8:]}" for path in IGNORED)}


@pytest.mark.parametrize("ignored", [False, True], ids=["no repository", "one that ignores it all"])
def test_without_git_every_file_of_a_folder_travels(ignored: bool, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "work")
    repository.environment("dev")
    _ignoring(repository, repository.root)
    if ignored:
        git.init(tmp_path)
        (tmp_path / ".gitignore").write_text("*\n")
    assert _mounted(repository).keys() == {*ALL, *(f"/etc/{path[8:]}" for path in IGNORED)}


REMOVED = (
    "/etc/hydra: null",
    "/etc/hydra: {from: other}",
    "/etc/hydra: {from: null, content: a}",
    "/etc/hydra/train.yaml: null",
    "/etc/hydra/train.yaml: {from: other/train.yaml}",
    '/etc/hydra: {mode: "0755"}',
)


@pytest.mark.parametrize("own", REMOVED)
def test_a_folder_and_what_a_layer_above_makes_of_it_have_no_findings(
    own: str, repository: Repository
) -> None:
    _folder(repository)
    _put(repository, "other/train.yaml", "b\n")
    hydra = "files: {/etc/hydra: {from: configs/hydra}}"
    repository.environment("dev", f"defaults: {{{hydra}}}\n")
    repository.job("dev/mnist", f"files: {{{own}, /etc/s: {{from: configs/hydra}}}}\n")
    repository.job("dev/other")
    repository.job("dev/third", 'files: {/etc/hydra: {content: "one file"}}\n')
    found = repository.run("check", "--no-cache")
    assert (found.exit_code, "TW06" in found.output) == (0, False), found.output


@pytest.mark.parametrize("path", ["/etc/hydra/gone.yaml", "/etc/none"])
def test_what_removes_nothing_of_a_folder_is_found(path: str, repository: Repository) -> None:
    _folder(repository)
    repository.environment("dev", "defaults: {files: {/etc/hydra: {from: configs/hydra}}}\n")
    job = repository.job("dev/mnist", f"files:\n  {path}: null\n")
    output = repository.run("check", "--no-cache").output
    assert f'files["{path}"]: null removes nothing' in output
    assert f"mnist.yaml:{len(job.read_text().splitlines())}:" in output


def test_the_documented_jobs_have_no_findings(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "example")
    found = Repository(tmp_path / "example").run("check", "--no-cache")
    assert (found.exit_code, "TW06" in found.output) == (0, False), found.output


# --- binary data ---------------------------------------------------------------------------------


def test_bytes_in_base64_are_a_file(repository: Repository) -> None:
    encoded = base64.b64encode(BYTES).decode()
    repository.job("dev/mnist", f"files: {{/etc/a.bin: {{binaryData: {encoded}}}}}\n")
    assert _mounted(repository) == {"/etc/a.bin": BYTES}
    first = _name(repository)
    _put(repository, "a.bin", BYTES)
    repository.job("dev/mnist", "files: {/etc/a.bin: {from: a.bin}}\n")
    _rendered(repository)
    assert _name(repository) == first


@pytest.mark.parametrize("text", ["AA", "AA==A", "a b=", "é==="])
def test_what_is_not_base64_is_refused(text: str, repository: Repository) -> None:
    repository.job("dev/mnist", f"files: {{/etc/a.bin: {{binaryData: {text!r}}}}}\n")
    assert "TW010" in _refused(repository)
