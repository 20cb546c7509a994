"""The public jobs of the documentation: their pages are fresh, and their specs what import makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import workload_pages

from trainwright.api import Repository


def test_the_pages_are_fresh() -> None:
    wanted = workload_pages.pages()
    for path, text in wanted.items():
        assert path.read_text(encoding="utf-8") == text, path.name
    assert set((workload_pages.DOCS / "workloads").glob("*.md")) <= set(wanted)


def test_every_spec_is_one_of_a_source_and_renders() -> None:
    names = {source["name"] for source in workload_pages.sources()}
    assert {path.stem for path in workload_pages.JOBS.glob("*.yaml")} == names
    rendering = Repository(workload_pages.EXAMPLE, today=workload_pages.TODAY).check()
    assert {job.removeprefix("open/") for job in rendering.jobs} == names
    broken = {finding.rule for finding in rendering.findings if finding.rule < "TW100"}
    assert broken == set()


@pytest.mark.slow  # the test above holds what is committed
def test_the_specs_are_what_import_makes_of_the_originals(shared: Callable[[str], Path]) -> None:
    specs, _ = workload_pages.imported(shared("workloads"))
    for path, text in specs.items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_each_source_is_of_a_commit_and_has_a_licence_that_allows_its_page() -> None:
    for source in workload_pages.sources():
        assert re.match(r"https://github\.com/[^/]+/[^/]+/blob/[0-9a-f]{40}/", source["url"])
        assert source["license"].partition(",")[0] in ("Apache-2.0", "MIT-0")
