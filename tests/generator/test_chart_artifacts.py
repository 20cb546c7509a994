"""The chart as an artefact: the same bytes anywhere, a version for each content, real registries."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import chart_registry
import git_repository as git
from chart_registry import Registry
from helm_chart import CHART
from trainwright.cli import main
from trainwright.gitops import packages


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["admin", "chart", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _no_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm's own files lie in the test's folder."""
    monkeypatch.setenv("HELM_REGISTRY_CONFIG", str(tmp_path / "registry.json"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{name}_HOME", str(tmp_path / f"helm-{name.lower()}"))


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """The shipped chart in a repository of its own, released as v0.1.0."""
    folder = git.init(tmp_path / "repository")
    shutil.copytree(CHART, folder / "chart")
    git.commit(folder, "Release")
    git.git(folder, "tag", "v1")
    return folder / "chart"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with chart_registry.serving() as running:
        yield running


def version(chart: Path) -> str:
    return packages.package(chart, chart.parents[1] / "for-its-version").version


# --- package ---------------------------------------------------------------------------------


def test_the_same_files_give_the_same_bytes_whenever_and_wherever(
    chart: Path, tmp_path: Path
) -> None:
    first = packages.package(chart, tmp_path / "one")
    elsewhere = tmp_path / "another place"
    shutil.copytree(chart, elsewhere)
    for path in elsewhere.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    second = packages.package(elsewhere, tmp_path / "two")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.digest == "sha256:" + hashlib.sha256(first.path.read_bytes()).hexdigest()
    with tarfile.open(first.path) as archive:
        assert {member.mtime for member in archive} == {315_532_800}
        names = {member.name for member in archive}
    assert {"training-job/Chart.yaml", "training-job/templates/_pod.tpl"} <= names
    assert not any(name.startswith("training-job/ci/") for name in names), "as .helmignore says"


def test_without_a_folder_it_is_the_chart_that_renders(tmp_path: Path) -> None:
    done = run("package", "--destination", tmp_path / "out")
    assert done.exit_code == 0, done.output
    path, digest = done.stdout.split()
    assert Path(path).parent == tmp_path / "out"
    assert digest == packages.package(CHART, tmp_path / "again").digest


@pytest.mark.parametrize("committed", [False, True])
def test_a_change_under_the_same_version_is_refused(chart: Path, committed: bool) -> None:
    was = version(chart)
    with (chart / "values.yaml").open("a") as file:
        file.write("# another default\n")
    if committed:
        git.commit(chart.parent)
    done = run("package", chart, "-d", chart.parent / "dist")
    assert done.exit_code == 1
    assert not done.stdout
    assert "error[TW013]: chart version not ok: it needs a bump" in done.stderr
    assert " --> chart/Chart.yaml:6:10" in done.stderr
    assert f"^ {was} is the version at v1 too, with other content" in done.stderr
    assert "= differs: values.yaml" in done.stderr
    assert "= help: Raise `version` in Chart.yaml." in done.stderr
    assert "1 error in 1 chart" in done.stderr
    assert not (chart.parent / "dist").exists()


def test_a_raised_version_and_what_is_not_packaged_are_fine(chart: Path) -> None:
    was = version(chart)
    with (chart / "ci/job-values.yaml").open("a") as file:
        file.write("# a scenario is not part of the chart\n")
    assert run("package", chart, "-d", chart.parent / "dist").exit_code == 0
    (chart / "values.yaml").write_text("# other\n" + (chart / "values.yaml").read_text())
    (chart / "Chart.yaml").write_text(
        (chart / "Chart.yaml").read_text().replace(f"version: {was}", "version: 9.9.9")
    )
    done = run("package", chart, "-d", chart.parent / "dist")
    assert done.exit_code == 0, done.output
    assert (chart.parent / "dist/training-job-9.9.9.tgz").is_file()


def test_a_release_is_compared_with_the_one_before(chart: Path) -> None:
    (chart / "values.yaml").write_text("# other\n" + (chart / "values.yaml").read_text())
    git.commit(chart.parent)
    git.git(chart.parent, "tag", "v2")
    done = run("package", chart, "-d", chart.parent / "dist")
    assert done.exit_code == 1
    assert "at v1 too" in done.stderr


def test_against_a_commit_and_outside_of_git(chart: Path, tmp_path: Path) -> None:
    first = git.git(chart.parent, "rev-parse", "HEAD")
    (chart / "templates/NOTES.txt").write_text("Other notes.\n")
    git.commit(chart.parent)
    git.git(chart.parent, "tag", "--delete", "v1")
    out = tmp_path / "out"
    assert run("package", chart, "-d", out).exit_code == 0, "there is no release to compare with"
    done = run("package", chart, "-d", out, "--against", first)
    assert done.exit_code == 1
    assert "differs: templates/NOTES.txt" in done.stderr
    unknown = run("package", chart, "-d", out, "--against", "gone")
    assert unknown.exit_code == 2
    assert 'there is no commit "gone" here' in unknown.stderr
    alone = tmp_path / "alone"
    shutil.copytree(chart, alone)
    assert run("package", alone, "-d", out).exit_code == 0
    assert run("package", alone, "-d", out, "--against", "HEAD").exit_code == 2


def test_what_is_no_chart_is_said_in_one_line(chart: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "text.tgz").write_text("no archive")
    (chart / "secret").symlink_to("/etc/passwd")
    for arguments, message in (
        (("package", empty), "is not a chart: it has no Chart.yaml"),
        (("package", chart), "secret in"),
        (("push", tmp_path / "text.tgz", "oci://127.0.0.1:1/x"), "is not a packaged chart"),
        (("verify", tmp_path / "text.tgz", "--source", CHART), "is not a packaged chart"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("trainwright: ")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


# --- push ------------------------------------------------------------------------------------


def test_push_and_pull_through_a_real_registry(chart: Path, registry: Registry) -> None:
    made = packages.package(chart, chart.parent / "dist")
    remote = f"oci://{registry.host}/charts"
    done = run("push", made.path, remote, "--plain-http")
    assert done.exit_code == 0, done.output
    reference = f"{remote}/training-job:{made.version}"
    manifest = registry.manifest("charts/training-job", made.version)
    (layer,) = manifest["layers"]
    assert layer["digest"] == made.digest
    assert registry.blobs[made.digest] == made.path.read_bytes()
    assert done.stdout.startswith(f"{reference}@sha256:")
    # No clock in it: the same manifest from any machine.
    text = registry.manifests["charts/training-job", made.version][1]
    assert done.stdout.strip().endswith(hashlib.sha256(text).hexdigest())
    assert manifest["annotations"]["org.opencontainers.image.created"].startswith("1980-01-01")
    verified = run("verify", reference, "--plain-http", "--source", chart)
    assert verified.exit_code == 0, verified.output
    assert f"the same as {chart} gives" in verified.stdout


def test_a_version_that_is_there_is_never_replaced(chart: Path, registry: Registry) -> None:
    remote = f"oci://{registry.host}/charts"
    made = packages.package(chart, chart.parent / "one")
    first = run("push", made.path, f"{remote}/", "--plain-http")
    writes = [request for request in registry.requests if request.startswith("PUT")]
    again = run("push", made.path, remote, "--plain-http")
    assert again.exit_code == 0
    assert again.stdout == first.stdout
    assert "there already, the same" in again.stderr
    (chart / "values.yaml").write_text("# other\n" + (chart / "values.yaml").read_text())
    other = packages.package(chart, chart.parent / "two")
    refused = run("push", other.path, remote, "--plain-http")
    assert refused.exit_code == 2
    assert "is there already, with other content" in refused.stderr
    assert [request for request in registry.requests if request.startswith("PUT")] == writes
    differs = run(
        "verify", f"{remote}/training-job:{made.version}", "--plain-http", "--source", chart
    )
    assert differs.exit_code == 1
    assert f"not what {chart} gives" in differs.stdout


def test_versions_with_build_metadata(chart: Path, registry: Registry) -> None:
    text = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(
        text.replace(f"version: {version(chart)}", "version: 1.0.0+b.1")
    )
    made = packages.package(chart, chart.parent / "dist")
    remote = f"oci://{registry.host}/charts"
    for _ in range(2):
        done = run("push", made.path, remote, "--plain-http")
        assert done.exit_code == 0, done.output
        assert done.stdout.startswith(f"{remote}/training-job:1.0.0_b.1@sha256:")
    assert "there already, the same" in done.stderr
    (chart / "values.yaml").write_text("# other\n" + (chart / "values.yaml").read_text())
    other = packages.package(chart, chart.parent / "two")
    assert run("push", other.path, remote, "--plain-http").exit_code == 2


def test_a_registry_that_cannot_be_reached(chart: Path) -> None:
    made = packages.package(chart, chart.parent / "dist")
    for remote, message in (
        ("oci://127.0.0.1:1/charts", "refused"),
        ("charts", "is not an OCI registry"),
    ):
        done = run("push", made.path, remote, "--plain-http")
        assert done.exit_code == 2
        assert message in done.stderr


# --- provenance ------------------------------------------------------------------------------


@pytest.fixture
def gpg(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder with the keyrings of Ada, who signs, and Bob, who does not."""
    if not shutil.which("gpg"):
        pytest.skip("gpg is not installed")
    home = tmp_path_factory.mktemp("gpg")
    home.chmod(0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))

    def call(*arguments: str) -> bytes:
        return subprocess.run(
            ["gpg", "--batch", "--quiet", *arguments], capture_output=True, check=True
        ).stdout

    for name in ("Ada", "Bob"):
        call("--passphrase", "", "--quick-generate-key", f"{name} <{name}@example.com>", "rsa2048", "sign", "never")  # fmt: skip
        (home / f"{name}.secret").write_bytes(call("--export-secret-keys", name))
        (home / f"{name}.public").write_bytes(call("--export", name))
    yield home
    subprocess.run(["gpgconf", "--kill", "all"], check=True)


def test_signed_pushed_and_verified(chart: Path, registry: Registry, gpg: Path) -> None:
    made = run("package", chart, "-d", chart.parent / "dist", "--sign", "Ada", "--keyring", gpg / "Ada.secret")  # fmt: skip
    assert made.exit_code == 0, made.output
    archive = Path(made.stdout.split()[0])
    remote = f"oci://{registry.host}/charts"
    pushed = run("push", archive, remote, "--plain-http")
    assert pushed.exit_code == 0, pushed.output
    assert len(registry.manifest("charts/training-job", version(chart))["layers"]) == 2
    good = run("verify", archive, "--keyring", gpg / "Ada.public")
    assert good.exit_code == 0, good.output
    assert "signed by Ada <Ada@example.com>" in good.stdout
    stranger = run("verify", archive, "--keyring", gpg / "Bob.public")
    assert stranger.exit_code == 2
    archive.write_bytes(packages.package(CHART, chart.parent / "other").path.read_bytes() + b"\n")
    assert run("verify", archive, "--keyring", gpg / "Ada.public").exit_code == 2


def test_a_key_needs_its_keyring_and_verify_something_to_verify(chart: Path) -> None:
    assert run("package", chart, "--sign", "Ada").exit_code == 2
    assert run("verify", chart / "Chart.yaml").exit_code == 2
