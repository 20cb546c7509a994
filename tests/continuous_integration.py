"""What CI=true demands of every test: that it runs. Costly ones are named, unless marked as slow.

Elsewhere a tool or the data of other projects may be missing, and the rest still runs.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

# Why a test may be skipped even there: the machine cannot do what it takes.
TAKES_ROOT = "this takes root"
TAKES_GPU = "this takes a GPU"
TAKES_CODE_SERVER = "this takes code-server"  # 330 MB of npm, which nights fetch
# Where scripts/fetch_upstream.py has fetched nothing, as on a machine without the network.
TAKES_NETWORK = "this takes a file that scripts/fetch_upstream.py brings"
# Where `--without-recordings` says so: there is nowhere to fetch the data from.
NOT_PUBLIC = "this data has no public source"

# Seconds of processors, of this process and of its children, from which a test is named at the end
# unless it is marked as slow. It is no failure: a machine with a slower or shared processor takes
# twice as long.
_COSTLY = 5
_SPENT = "processor seconds"

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
    try:
        yield
    finally:
        item.user_properties.append((_SPENT, _processor_time() - before))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.getoption("markexpr") != "not slow":  # others draw more examples
        return
    spent = {
        report.nodeid: dict(report.user_properties).get(_SPENT, 0)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
    }
    costly = {test: seconds for test, seconds in spent.items() if seconds > _COSTLY}
    if costly:
        terminalreporter.section("not marked as slow: mark them, or make them cheaper")
        for test in sorted(costly, key=lambda test: -costly[test]):
            terminalreporter.write_line(f"{costly[test]:.1f} s of a processor  {test}")


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
    excuses: tuple[str, ...] = (TAKES_ROOT, TAKES_GPU, TAKES_CODE_SERVER, TAKES_NETWORK)
    if config.getoption("--without-recordings"):
        excuses = (*excuses, NOT_PUBLIC)
    if not reason.startswith(excuses):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped, which CI=true forbids: {reason}"
