"""Two environments that render the same object: found by `check` where it can know that."""

from __future__ import annotations

import pytest

from repository import ENVIRONMENT, Repository

CONTEXT = 'kubernetes: {version: "1.31", context: CLUSTER}'


def _environment(repository: Repository, name: str, extra: str = "", context: str = "") -> None:
    text = ENVIRONMENT
    if context:
        text = text.replace('kubernetes: {version: "1.31"}', CONTEXT.replace("CLUSTER", context))
    repository.write(f"{name}/environment.yaml", text + extra)


def _found(repository: Repository, *selections: str) -> list[str]:
    result = repository.run("check", *selections, "-o", "text")
    assert result.exit_code == 0, result.output
    return [line for line in result.output.splitlines() if "[TW041]" in line]


NAMED = "gitops: {destination: {name: gpu-east}}\n"
OTHER = "gitops: {destination: {name: gpu-west}}\n"
SOURCE = "gitops: {repository: {url: https://git.example.com/ml.git}}\n"
OUTSIDE = "gitops: {engine: none, destination: {name: gpu-east}}\n"


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ((NAMED, ""), (NAMED, ""), True),
        (("", "east"), ("", "east"), True),
        ((NAMED, "east"), (NAMED, ""), True),
        ((NAMED, ""), (OTHER, ""), False),
        (("", "east"), ("", "west"), False),
        ((NAMED, "east"), (NAMED, "west"), False),
        (("", ""), ("", ""), False),  # of each the engine's own, which may be two
        (("", "east"), ("", ""), False),
        ((OUTSIDE, ""), (NAMED, ""), False),  # which nothing applies
    ],
)
def test_environments_of_one_cluster(
    one: tuple[str, str], other: tuple[str, str], found: bool, repository: Repository
) -> None:
    for name, (extra, context) in (("lab", one), ("field", other)):
        _environment(repository, name, extra, context)
        repository.job(f"{name}/llm", "network: isolated\n")
    lines = _found(repository)
    assert len(lines) == (2 if found else 0)
    if found:
        said = "warning[TW041]: lab renders the same objects into training: llm-"
        assert lines[0].startswith(said)


def test_environments_that_are_wired_here(repository: Repository) -> None:
    for name in ("lab", "field"):
        _environment(repository, name, SOURCE)
        repository.job(f"{name}/llm")
    assert repository.run("render").exit_code == 0
    for name in ("lab", "field"):
        (repository.root / "wiring" / name).mkdir(parents=True)
        (repository.root / "wiring" / name / "project.yaml").write_text("")
    assert len(_found(repository)) == 2
    assert len(_found(repository, "lab")) == 1  # field has its run in git
    # A near miss: another run.
    repository.job("field/llm", "run: 2\n")
    assert _found(repository) == []


def test_a_claim_that_two_environments_make(repository: Repository) -> None:
    """The runs have other names, since their images differ, and the claim has one."""
    create = "{size: 1Gi, accessModes: [ReadWriteMany]}"
    for name, tag in (("lab", "1.0"), ("field", "1.1")):
        _environment(repository, name, NAMED)
        claim = f"volumes: {{ckpt: {{mountPath: /ckpt, create: {create}}}}}\n"
        path = repository.job(f"{name}/llm", claim)
        path.write_text(path.read_text().replace('tag: "1.0"', f'tag: "{tag}"'))
    lines = _found(repository)
    assert len(lines) == 2
    assert all(line.endswith("into training: llm-ckpt") for line in lines)
