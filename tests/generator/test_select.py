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
        ("x/y", "list jobs"),
    ],
)
def test_what_matches_nothing_is_said_with_what_comes_near(pattern: str, hint: str) -> None:
    with pytest.raises(SelectionError, match=hint):
        select((pattern,), AVAILABLE)


@pytest.mark.parametrize(
    ("pattern", "writes"), [("prod/nope", False), ("prod/nope", True), ("prd", True)]
)
def test_no_environment_is_named_for_a_job(pattern: str, writes: bool) -> None:
    """Who follows it would write to every job of the environment."""
    with pytest.raises(SelectionError) as error:
        select((pattern,), AVAILABLE, writes=writes)
    assert re.search("did you mean prod/|see `trainwright list jobs`", str(error.value))
    assert not re.search(r"(mean|or) (prod|dev|empty)(?!/)", str(error.value))
