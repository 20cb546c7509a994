"""Code by commit or by image: what is rendered of it, what is refused, and what a rehearsal runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import git_repository as git
from normal_forms import normal_form
from repository import Repository
from trainwright.objects.pods.code import GIT_SYNC
from trainwright.render import objects

URL = "https://git.example.com/ml/trainers.git"
COMMIT = "8b1a9953c4611296a827abf8c47804d7e6c49c6b"
IMAGE = f"registry.example.com/ml/code@sha256:{'5' * 64}"
TARGETS = {
    "pytorchjob": '{version: "1.9", restrictedInitContainer: true}',
    "trainingjob": "{}",
    "trainjob": '{version: "2.3"}',
    "jobset": "{}",
    "job": "{}",
    "compose": "{}",
}


def _environment(repository: Repository, extra: str = "", kubernetes: str = "1.35") -> None:
    targets = ", ".join(f"{name}: {options}" for name, options in TARGETS.items())
    path = repository.environment("dev", extra)
    lines = path.read_text().replace('"1.31"', f'"{kubernetes}"').splitlines(True)
    path.write_text("".join(line for line in lines if not line.startswith("targets")))
    with path.open("a") as file:
        file.write(f"targets: {{{targets}}}\n")


def _job(repository: Repository, code: str, target: str = "job", extra: str = "") -> None:
    path = repository.job("dev/mnist", f"code: {code}\ntarget: {target}\nlauncher: python\n{extra}")
    text = path.read_text().replace("nodes: 2\n", "").replace("maxDuration: 2h\n", "")
    path.write_text(f"{text}security: {{runAsUser: 1000}}\n")


def _rendered(repository: Repository) -> dict[str, str]:
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/dev/rendered/mnist"
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix == ".yaml"}


def _pod(repository: Repository) -> dict[str, Any]:
    rendered = _rendered(repository)["job.yaml"]
    job: dict[str, Any] = yaml.load(rendered, Loader=yaml.CSafeLoader)
    return dict(job["spec"]["template"]["spec"])


def _refused(repository: Repository) -> str:
    done = repository.run("check", "--no-cache")
    assert done.exit_code == 1, done.output
    return done.output


def test_a_commit_is_fetched_before_anything_else(repository: Repository) -> None:
    _environment(repository)
    code = f"{{git: {{url: {URL}, commit: {COMMIT}, path: src/llm}}, mountPath: /srv/llm}}"
    _job(repository, code, extra="initContainers: {own: {image: a:1, command: [a]}}\n")
    pod = _pod(repository)
    fetching, own = pod["initContainers"]
    assert own["name"] == "own"
    assert fetching["image"] == GIT_SYNC
    assert "command" not in fetching  # that of the image
    words = fetching["args"]
    assert {f"--repo={URL}", f"--ref={COMMIT}", "--one-time", "--depth=1"} <= set(words)
    (root,) = fetching["volumeMounts"]
    link = next(word.partition("=")[2] for word in words if word.startswith("--link="))
    assert f"--root={root['mountPath']}" in words
    (container,) = pod["containers"]
    assert container["workingDir"] == "/srv/llm"
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == root["name"]]
    assert (mount["mountPath"], mount["subPath"]) == ("/srv/llm", f"{link}/src/llm")
    assert {"name": root["name"], "emptyDir": {}} in pod["volumes"]


@pytest.mark.parametrize("code", [f"git: {{url: {URL}, commit: {COMMIT}}}", f"image: '{IMAGE}'"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_carries_the_code_or_refuses_it_by_name(
    target: str, code: str, repository: Repository
) -> None:
    _environment(repository)
    _job(repository, f"{{{code}}}", target)
    if target == "compose" or (target == "trainingjob" and "image" in code):
        output = _refused(repository)
        assert f"{target}: it has no place for code: " in output
        assert output.count("error[") == 1
        return
    manifests = objects.manifests(_rendered(repository), target)
    (pod,) = normal_form(manifests).pods
    assert pod.mounts["/code"].source.keys() <= {"emptyDir", "image"}
    assert pod.rest["container"]["workingDir"] == "/code"


def test_a_secret_of_an_https_repository_is_in_variables(repository: Repository) -> None:
    _environment(repository)
    _job(repository, f"{{git: {{url: {URL}, commit: {COMMIT}, secret: git}}}}")
    fetching, *_ = _pod(repository)["initContainers"]
    keys = {e["name"]: e["valueFrom"]["secretKeyRef"] for e in fetching["env"]}
    assert keys == {
        "GITSYNC_USERNAME": {"name": "git", "key": "username"},
        "GITSYNC_PASSWORD": {"name": "git", "key": "password"},
    }


@pytest.mark.parametrize("url", ["git@git.example.com:ml/a.git", "ssh://git@git.example.com/a.git"])
def test_a_key_for_ssh_is_mounted_where_the_code_is_fetched_and_nowhere_else(
    url: str, repository: Repository
) -> None:
    _environment(repository)
    _job(repository, f"{{git: {{url: '{url}', commit: {COMMIT}}}}}")
    assert "fetched by ssh with a key, and code.git has no secret" in _refused(repository)
    _job(repository, f"{{git: {{url: '{url}', commit: {COMMIT}, secret: git}}}}")
    pod = _pod(repository)
    (volume,) = [v for v in pod["volumes"] if v.get("secret") == {"secretName": "git"}]
    fetching, container = pod["initContainers"][0], pod["containers"][0]
    (mount,) = [m for m in fetching["volumeMounts"] if m["name"] == volume["name"]]
    assert f"--ssh-key-file={mount['mountPath']}/ssh-privatekey" in fetching["args"]
    assert f"--ssh-known-hosts-file={mount['mountPath']}/known_hosts" in fetching["args"]
    assert volume["name"] not in {m["name"] for m in container["volumeMounts"]}


def test_an_image_is_a_volume_of_its_files(repository: Repository) -> None:
    _environment(repository)
    _job(repository, f"{{image: '{IMAGE}'}}")
    pod = _pod(repository)
    assert "initContainers" not in pod
    (volume,) = [v for v in pod["volumes"] if "image" in v]
    assert volume["image"]["reference"] == IMAGE
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == volume["name"]]
    assert mount["readOnly"] is True


@pytest.mark.parametrize(
    ("kubernetes", "message"),
    [("1.30", "1.31 is the first"), ("1.31", "feature gate"), ("1.34", "gate"), ("1.35", "")],
)
def test_a_cluster_without_volumes_of_images_is_found(
    kubernetes: str, message: str, repository: Repository
) -> None:
    _environment(repository, kubernetes=kubernetes)
    _job(repository, f"{{image: '{IMAGE}'}}")
    output = repository.run("check", "dev").output
    assert ("TW730" in output) == bool(message)
    assert message in output


def test_an_environment_has_a_copy_of_git_sync(repository: Repository) -> None:
    copy = f"registry.example.com/git-sync@sha256:{'6' * 64}"
    _environment(
        repository, "images: {requireDigest: false, registries: [registry.example.com/]}\n"
    )
    _job(repository, f"{{git: {{url: {URL}, commit: {COMMIT}}}}}")
    assert "registry.k8s.io" in repository.run("check", "dev").output
    _environment(
        repository, f"images: {{gitSync: '{copy}', registries: [registry.example.com/]}}\n"
    )
    assert _pod(repository)["initContainers"][0]["image"] == copy
    before = repository.tree()
    # Another one is held back, as every change of an environment.
    _environment(repository)
    _rendered(repository)
    assert repository.tree() == before
    assert "images.gitSync" in repository.run("list", "jobs").output


REFUSED = {
    "a branch": f"{{git: {{url: {URL}, commit: main}}}}",
    "a short hash": f"{{git: {{url: {URL}, commit: 8b1a995}}}}",
    "a user's password": f"{{git: {{url: 'https://me:secret@git.example.com/a', commit: {COMMIT}}}}}",
    "no encryption": f"{{git: {{url: 'http://git.example.com/a', commit: {COMMIT}}}}}",
    "this machine": f"{{git: {{url: 'file:///srv/a', commit: {COMMIT}}}}}",
    "an option": f"{{git: {{url: '--upload-pack=a', commit: {COMMIT}}}}}",
    "a tag of an image": "{image: 'registry.example.com/ml/code:1.0'}",
    "both": f"{{git: {{url: {URL}, commit: {COMMIT}}}, image: '{IMAGE}'}}",
    "neither": "{mountPath: /code}",
    "a way out": f"{{git: {{url: {URL}, commit: {COMMIT}, path: ../a}}}}",
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_what_is_no_fixed_code_is_refused(code: str, repository: Repository) -> None:
    _environment(repository)
    _job(repository, code)
    output = _refused(repository)
    assert "error[TW010]" in output
    assert "me:secret" not in output


def test_an_isolated_network_reaches_no_repository(repository: Repository) -> None:
    _environment(repository)
    _job(repository, f"{{git: {{url: {URL}, commit: {COMMIT}}}}}", extra="network: isolated\n")
    assert "an isolated network reach only each other" in _refused(repository)


def test_trackers_know_the_commit(repository: Repository) -> None:
    _environment(repository)
    code = f"{{git: {{url: {URL}, commit: {COMMIT}}}}}"
    _job(repository, code, extra="tracking: {project: llm}\n")
    env = {e["name"]: e.get("value") for e in _pod(repository)["containers"][0]["env"]}
    assert env["WANDB_GIT_COMMIT"] == COMMIT


# --- on this machine -----------------------------------------------------------------------------


def _commits(folder: Path) -> str:
    """A repository whose first commit, which is returned, is not what lies in its folder."""
    git.init(folder)
    (folder / "src").mkdir()
    (folder / "src/train.py").write_text("import os, part; print(part.NAME, os.getcwd())\n")
    (folder / "src/part.py").write_text("NAME = 'the commit'\n")
    commit = git.committed(folder)
    (folder / "src/part.py").write_text("NAME = 'something else'\n")
    git.commit(folder)
    return commit


def _run(repository: Repository, *options: str) -> tuple[int, str]:
    done = repository.run("rehearse", "dev/mnist", *options)
    return done.exit_code, done.output


def test_a_rehearsal_runs_exactly_the_commit(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = _commits(tmp_path / "elsewhere")
    elsewhere = f"url.file://{tmp_path}/elsewhere.insteadOf"
    for key, value in (("COUNT", "1"), ("KEY_0", elsewhere), ("VALUE_0", URL)):
        monkeypatch.setenv(f"GIT_CONFIG_{key}", value)
    _environment(repository)
    _job(repository, f"{{git: {{url: {URL}, commit: {commit}, path: src}}}}")
    exit_code, output = _run(repository)
    assert exit_code == 0, output
    (line,) = [line for line in output.splitlines() if "the commit " in line]
    assert line.endswith(f"/code/{commit}/src")
    assert "code: /code is " in output
    # A folder that is given is the code, whatever the commit has.
    (tmp_path / "own").mkdir()
    (tmp_path / "own/train.py").write_text("print('my own')")
    exit_code, output = _run(repository, "--code", str(tmp_path / "own"))
    assert exit_code == 0, output
    assert "my own" in output


def test_a_commit_of_the_repository_itself_takes_no_network(repository: Repository) -> None:
    commit = _commits(repository.root)
    _environment(repository)
    _job(
        repository,
        f"{{git: {{url: {URL}, commit: {commit}, path: src}}, mountPath: /srv}}",
        extra="entrypoint: {argv: [python, /srv/train.py]}\n",
    )
    path = repository.root / "environments/dev/jobs/mnist.yaml"
    path.write_text(path.read_text().replace("entrypoint: {script: train.py}\n", ""))
    exit_code, output = _run(repository)
    assert exit_code == 0, output
    assert "the commit " in output


def test_a_commit_that_is_not_there_is_one_line(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _commits(tmp_path / "elsewhere")
    elsewhere = f"url.file://{tmp_path}/elsewhere.insteadOf"
    for key, value in (("COUNT", "1"), ("KEY_0", elsewhere), ("VALUE_0", URL)):
        monkeypatch.setenv(f"GIT_CONFIG_{key}", value)
    _environment(repository)
    _job(repository, f"{{git: {{url: {URL}, commit: {COMMIT}}}}}")
    exit_code, output = _run(repository)
    assert exit_code == 2
    assert f"{URL} at {COMMIT} cannot be checked out" in output
    assert "--code DIR" in output


def test_the_code_of_an_image_has_to_be_given(repository: Repository) -> None:
    _environment(repository)
    _job(repository, f"{{image: '{IMAGE}'}}")
    exit_code, output = _run(repository)
    assert exit_code == 2
    assert "images are not run here; name a folder that holds it with --code DIR" in output


def test_the_record_of_a_run_names_its_commit(repository: Repository) -> None:
    _environment(repository)
    _job(repository, f"{{git: {{url: {URL}, commit: {COMMIT}}}}}")
    _rendered(repository)
    record = json.loads((repository.root / "environments/dev/rendered/mnist/run.lock").read_text())
    assert record["job"]["code"]["git"]["commit"] == COMMIT
