"""What CI=true demands of every test: that it runs, and that it is cheap or marked as slow.

Elsewhere a tool or the data of other projects may be missing, and the rest still runs.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

# Why a test may be skipped even there: the machine cannot do what it takes.
TAKES_ROOT = "this takes root"
# Where `--without-recordings` says so: there is nowhere to fetch the data from.
NOT_PUBLIC = "this data has no public source"

# Seconds that a test may use of a processor before it has to be marked as slow. The time of
# processors, of this process and its children, hardly depends on who else is on the machine; what
# sharing its caches with them costs, up to half as much again, is not held against a test.
_LIMIT = 5
_BUSY = 1.5

_CI = os.environ.get("CI") == "true"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-recordings",
        action="store_true",
        help="even where CI=true, skip tests that read data that cannot be fetched",
    )


def _processor_time() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = _processor_time()
    yield
    spent = _processor_time() - before
    quick = item.config.getoption("markexpr") == "not slow"  # others draw many more examples
    if _CI and quick and spent > _LIMIT * _BUSY:
        pytest.fail(
            f"{spent:.1f} seconds of a processor in a test that is not marked as slow, "
            f"of at most {_LIMIT}: mark it, or make it cheaper",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skips(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skips(report, collector.config)
    return report


def _refuse_skips(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    """Make a skip a failure, unless its reason is one of those above."""
    if not _CI or not report.skipped or not isinstance(report.longrepr, tuple):
        return
    path, line, reason = report.longrepr
    reason = reason.removeprefix("Skipped: ")
    excuses = (TAKES_ROOT, NOT_PUBLIC) if config.getoption("--without-recordings") else TAKES_ROOT
    if not reason.startswith(excuses):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped, which CI=true forbids: {reason}"
