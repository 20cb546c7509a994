"""Tags turned into digests: by a real registry over HTTP, by a recorded lock, by hand."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import oci_registry
from git_repository import git
from repository import Repository

DIGEST = f"sha256:{'c' * 64}"
IMAGE = 'image: {repository: registry.example.com/ml/train, tag: "1.0"}'


@pytest.fixture(autouse=True)
def _no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def registry() -> Iterator[oci_registry.Registry]:
    with oci_registry.serving() as found:
        yield found


@pytest.fixture
def jobs(repository: Repository, registry: oci_registry.Registry) -> Repository:
    for name, tag in (("prod/llm", "1234567"), ("prod/mnist", "1.0")):
        path = repository.job(name)
        image = f'image: {{repository: {registry.host}/ml/train, tag: "{tag}"}}'
        path.write_text(path.read_text().replace(IMAGE, image))
    assert repository.run("render").exit_code == 0
    git(repository.root, "commit", "--quiet", "--all", "--message", "Images")
    return repository


def spec(jobs: Repository, name: str = "llm") -> Path:
    return jobs.root / f"environments/prod/jobs/{name}.yaml"


def test_a_registry_that_wants_a_token_says_what_a_tag_stands_for(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    digest = registry.add("ml/train:1234567")
    result = jobs.run("pin", "prod/llm", "--plain-http")
    assert result.exit_code == 0, result.output
    assert f'tag: "1234567", digest: "{digest}"}}' in spec(jobs).read_text()
    assert set(registry.requests) == {"HEAD /v2/ml/train/manifests/1234567"}
    assert jobs.run("render", "--check").exit_code == 0


def test_a_private_repository_is_asked_with_dockers_credentials(
    jobs: Repository, registry: oci_registry.Registry, tmp_path: Path
) -> None:
    registry.add("ml/train:1234567")
    registry.private["ml/train"] = "ada:pass word"
    result = jobs.run("pin", "prod/llm", "--plain-http")
    assert result.exit_code == 2
    assert "wants other credentials" in result.stderr
    auth = base64.b64encode(b"ada:pass word").decode()
    config = tmp_path / "docker/config.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"auths": {registry.host: {"auth": auth}}}))
    result = jobs.run("pin", "prod/llm", "--plain-http")
    assert result.exit_code == 0, result.output
    assert auth not in result.output


def test_a_registry_that_names_no_digest_is_asked_for_the_manifest_itself(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    digest = registry.add("ml/train:1234567")
    registry.says = {"Docker-Content-Digest": ""}
    assert jobs.run("pin", "prod/llm", "--plain-http").exit_code == 0
    assert digest in spec(jobs).read_text()


FAILURES = {
    "no such tag": ({}, "127.0.0.1:[0-9]+/ml/train:1234567 is not in its registry"),
    "another hash": (
        {"Docker-Content-Digest": "sha512:abc"},
        'names no SHA-256 digest, but "sha512:abc"',
    ),
}


@pytest.mark.parametrize(("says", "message"), FAILURES.values(), ids=FAILURES)
def test_what_a_registry_cannot_say_is_one_line(
    says: dict[str, str], message: str, jobs: Repository, registry: oci_registry.Registry
) -> None:
    if says:
        registry.add("ml/train:1234567")
        registry.says = says
    before = spec(jobs).read_text()
    result = jobs.run("pin", "prod/llm", "--plain-http")
    assert result.exit_code == 2
    assert re.search(message, result.stderr)
    assert "Traceback" not in result.stderr
    assert spec(jobs).read_text() == before


def test_a_registry_that_is_not_there_is_one_line(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    registry.shutdown()
    registry.server_close()
    result = jobs.run("pin", "prod/llm", "--plain-http")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert re.search(r": cannot reach \S+; use --digest or --from-lock$", result.stderr.strip())


def test_a_registry_that_is_busy_is_asked_again(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    registry.add("ml/train:1234567")
    registry.fails = 2
    assert jobs.run("pin", "prod/llm", "--plain-http").exit_code == 0
    assert len(registry.requests) == 4  # twice busy, once without a token, once with it


def test_a_pinned_job_keeps_its_digest_until_it_shall_not(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    first = registry.add("ml/train:1234567")
    assert jobs.run("pin", "prod/llm", "--plain-http").exit_code == 0
    registry.manifests["ml/train:1234567"] += b"\n"
    result = jobs.run("pin", "prod/llm", "--plain-http")
    assert "is pinned already" in result.stderr
    assert first in spec(jobs).read_text()
    assert jobs.run("pin", "prod/llm", "--plain-http", "--update").exit_code == 0
    assert first not in spec(jobs).read_text()
    result = jobs.run("pin", "prod/llm", "--plain-http", "--update")
    assert "1234567 is still sha256:" in result.stderr


def test_what_was_recorded_pins_without_a_network(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    one, other = registry.add("ml/train:1234567"), registry.add("ml/train:1.0")
    assert jobs.run("pin", "prod", "--plain-http", "--record", "--commit").exit_code == 0
    lock = jobs.root / "environments/images.lock.yaml"
    assert lock.read_text().splitlines()[2:] == [
        "apiVersion: trainwright.io/v1alpha1",
        "kind: ImageLock",
        "images:",
        f'  "{registry.host}/ml/train:1234567": "{one}"',
        f'  "{registry.host}/ml/train:1.0": "{other}"',
    ]
    assert "images.lock.yaml" in git(jobs.root, "show", "--name-only", "--format=")
    registry.requests.clear()
    git(jobs.root, "checkout", "--quiet", "HEAD~", "--", "environments/prod")
    assert jobs.run("pin", "prod", "--from-lock").exit_code == 0
    assert not registry.requests
    assert one in spec(jobs).read_text()
    assert other in spec(jobs, "mnist").read_text()


def test_images_of_init_containers_and_sidecars_are_pinned_too(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    own, tool = registry.add("ml/train:1234567"), registry.add("tools/get:2")
    daemon = registry.add("net/daemon:1")
    path = spec(jobs)
    path.write_text(
        f"{path.read_text()}initContainers:\n"
        f"  get: {{image: '{registry.host}/tools/get:2'}} # stays\n"
        f"sidecars: {{daemon: {{image: '{registry.host}/net/daemon:1'}}}}\n"
    )
    result = jobs.run("pin", "prod/llm", "--plain-http", "--record")
    assert result.exit_code == 0, result.stderr
    text = path.read_text()
    assert own in text
    assert f"{registry.host}/tools/get:2@{tool}" in text
    assert f"{registry.host}/net/daemon:1@{daemon}" in text
    assert "# stays" in text
    lock = (jobs.root / "environments/images.lock.yaml").read_text()
    assert f'"{registry.host}/tools/get:2": "{tool}"' in lock
    again = jobs.run("pin", "prod/llm", "--plain-http")
    assert "is pinned already" in again.stderr
    assert path.read_text() == text


def test_a_container_whose_image_has_no_tag_is_named(jobs: Repository) -> None:
    path = spec(jobs)
    path.write_text(f"{path.read_text()}sidecars: {{daemon: {{image: a/daemon}}}}\n")
    path.write_text(path.read_text().replace('tag: "1234567"', f'tag: "1", digest: "{DIGEST}"'))
    result = jobs.run("pin", "prod/llm", "--plain-http")
    assert "no tag that could be looked up for sidecars.daemon" in result.stderr


def test_a_lock_that_does_not_know_or_cannot_be_read_is_one_line(jobs: Repository) -> None:
    result = jobs.run("pin", "prod/llm", "--from-lock")
    assert result.exit_code == 2
    assert "environments/images.lock.yaml has no 127.0.0.1:" in result.stderr
    jobs.write("images.lock.yaml", "kind: ImageLock\nimages: {a: b}\n")
    result = jobs.run("pin", "prod/llm", "--from-lock")
    assert result.exit_code == 2
    assert "trainwright: environments/images.lock.yaml:" in result.stderr


def test_a_digest_by_hand_reaches_only_jobs_of_its_image(
    jobs: Repository, registry: oci_registry.Registry
) -> None:
    path = jobs.job("prod/mnist")
    assert jobs.run("render").exit_code == 0
    result = jobs.run("pin", "prod", "--digest", DIGEST)
    assert result.exit_code == 2
    assert "these jobs run 2 images" in result.stderr
    result = jobs.run("pin", "prod", "--digest", f"{registry.host}/ml/train:2.0@{DIGEST}")
    assert result.exit_code == 0, result.output
    assert f'tag: "2.0", digest: "{DIGEST}"' in spec(jobs).read_text()
    assert "digest" not in path.read_text()
    assert "prod/mnist runs registry.example.com/ml/train, not 127.0.0.1" in result.stderr
    assert jobs.run("pin", "prod/llm", "--digest", DIGEST).stderr.startswith(
        "prod/llm is pinned already"
    )
    assert jobs.run("pin", "prod/llm", "--digest", "sha256:short").exit_code == 2
