"""Selecting environments and jobs the way people type them."""

from __future__ import annotations

import re

import pytest

from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.layout import JobFile
from trainwright.specs.select import select

AVAILABLE = {
    env: tuple(JobFile(env, job) for job in jobs)
    for env, jobs in {"dev": ("mnist",), "prod": ("llm", "mnist"), "empty": ()}.items()
}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), {"dev": ["mnist"], "empty": [], "prod": ["llm", "mnist"]}),
        (("prod",), {"prod": ["llm", "mnist"]}),
        (("prod/",), {"prod": ["llm", "mnist"]}),
        (("prod/llm",), {"prod": ["llm"]}),
        (("*/mnist",), {"dev": ["mnist"], "prod": ["mnist"]}),
        (("p*/l*", "dev"), {"dev": ["mnist"], "prod": ["llm"]}),
        (("prod/llm", "prod/llm"), {"prod": ["llm"]}),
        (("environments/prod/jobs/llm.yaml",), {"prod": ["llm"]}),
        (("./environments/prod/jobs/llm.yaml", "dev"), {"dev": ["mnist"], "prod": ["llm"]}),
    ],
)
def test_selects(patterns: tuple[str, ...], expected: dict[str, list[str]]) -> None:
    chosen = select(patterns, AVAILABLE)
    assert {s.environment: [job.name for job in s.jobs] for s in chosen} == expected


def test_only_a_bare_environment_is_whole() -> None:
    assert {s.environment: s.whole for s in select(("prod/*", "dev"), AVAILABLE)} == {
        "dev": True,
        "prod": False,
    }
    assert select(("prod/llm", "prod"), AVAILABLE)[0].whole


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("prd", "did you mean prod"),
        ("prod/lm", "did you mean prod/llm"),
        ("environments/prod/jobs/lm.yaml", "did you mean prod/llm"),
        ("x/y", "there are the jobs prod/llm, dev/mnist, prod/mnist$"),
        (
            "sandbox",
            "there are the environments dev, prod, empty and the jobs prod/llm, dev/mnist, prod",
        ),
        ("mnist", "did you mean dev/mnist or prod/mnist"),
        ("staging/vit", "there are the jobs .*dev/mnist"),
    ],
)
def test_what_matches_nothing_is_said_with_what_comes_near(pattern: str, hint: str) -> None:
    with pytest.raises(SelectionError, match=hint):
        select((pattern,), AVAILABLE)


def test_of_many_the_nearest_are_named() -> None:
    many = {"dev": tuple(JobFile("dev", f"job-{number}") for number in range(2000))}
    with pytest.raises(SelectionError, match="and 1,997 more, see `trainwright list jobs`"):
        select(("llm",), many)
    with pytest.raises(SelectionError, match=r"there is the environment dev$"):
        select(("llm",), {"dev": ()})
    with pytest.raises(SelectionError, match="there is no job yet"):
        select(("dev/llm",), {"dev": ()})


@pytest.mark.parametrize(
    ("pattern", "writes"), [("prod/nope", False), ("prod/nope", True), ("prd", True)]
)
def test_no_environment_is_named_for_a_job(pattern: str, writes: bool) -> None:
    """Who follows it would write to every job of the environment."""
    with pytest.raises(SelectionError) as error:
        select((pattern,), AVAILABLE, writes=writes)
    assert re.search("did you mean prod/|there are the jobs prod/", str(error.value))
    assert not re.search(r"(mean|or) (prod|dev|empty)(?!/)", str(error.value))
