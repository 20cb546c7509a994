"""The report of a repository, out of what was checked."""

from __future__ import annotations

from datetime import date

import pytest

from repository import Repository
from trainwright.overview.collect import overview
from trainwright.render.build import BuildOptions, build

TODAY = "2026-06-01"
OPTIONS = BuildOptions(today=date(2026, 6, 1))


@pytest.mark.parametrize("warm", [False, True])
def test_a_report_is_of_the_specs_that_were_checked(repository: Repository, *, warm: bool) -> None:
    """They are read once, whatever is edited in the meantime."""
    repository.run("render")
    if warm:
        build(repository.root, (), OPTIONS)
    expected = overview(repository.root, build(repository.root, (), OPTIONS), today=TODAY)
    built = build(repository.root, (), OPTIONS)
    for path in repository.root.glob("environments/*/**/*.yaml"):
        path.write_text("nodes: [", encoding="utf-8")
    found = overview(repository.root, built, today=TODAY)
    assert [one.name for one in found.environments] == ["dev", "prod"]
    assert found.environments == expected.environments
    assert all(job.job for one in found.environments for job in one.jobs)
