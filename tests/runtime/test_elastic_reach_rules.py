"""Which workers steps go on without: every case of up to four workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product
from typing import Any

import pytest

from trainwright_runtime.coordination.reach import Report, Verdict, decide

NAMES = "abcd"
Pair = frozenset[str]


def _cases(workers: int) -> Iterator[tuple[dict[str, Report], frozenset[str], set[Pair]]]:
    """Whoever cannot connect, whatever each of them holds, whoever took the last step."""
    names = NAMES[:workers]
    pairs = [frozenset(pair) for pair in combinations(names, 2)]
    for broken in _subsets(pairs):
        for held in product((0, 7, 8) if workers < 4 else (0, 8), repeat=workers):
            for before in _subsets(names):
                reports = {
                    name: Report(
                        unreached=frozenset(chain(*(p for p in broken if min(p) == name))),
                        held=step,
                    )
                    for name, step in zip(names, held, strict=True)
                }
                yield reports, frozenset(before), set(broken)


def _subsets(items: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_those_who_stay_reach_each_other_and_hold_what_was_trained(workers: int) -> None:
    for reports, before, broken in _cases(workers):
        verdict = decide(reports, before)
        stay = reports.keys() - verdict.out
        assert stay, (reports, before)
        assert not any(pair <= stay for pair in broken), (reports, before)
        for worker in verdict.out:
            assert any(worker in pair and pair & stay for pair in broken), (reports, before)
        needed = _needed(reports, before)
        assert not needed or needed & stay, (reports, before)
        assert verdict.needed in {"", *needed & stay}


def _needed(reports: dict[str, Report], before: frozenset[str]) -> frozenset[str]:
    """One of these has to stay."""
    latest = max(report.held for report in reports.values())
    ahead = frozenset(name for name, report in reports.items() if report.held == latest)
    return (ahead & before or ahead) if latest else frozenset()


@pytest.mark.parametrize("workers", [3, 4])
def test_one_in_all_of_the_pairs_is_the_one_that_is_left_out(workers: int) -> None:
    """Unless it alone holds what was trained: then those who cannot reach it are."""
    for reports, before, broken in _cases(workers):
        blamed = [name for name in reports if len(broken) > 1 and all(name in p for p in broken)]
        for name in blamed:
            if _needed(reports, before) == {name}:
                others = frozenset(chain(*broken)) - {name}
                assert decide(reports, before) == Verdict(out=others, needed=name)
            else:
                assert decide(reports, before) == Verdict(out=frozenset({name}))


def _reports(**unreached: str) -> dict[str, Report]:
    return {name: Report(unreached=frozenset(others)) for name, others in unreached.items()}


def test_of_two_the_one_goes_on_that_took_the_last_step() -> None:
    assert decide(_reports(a="", b="a"), {"b"}).out == {"a"}
    assert decide(_reports(a="b", b="a"), {"a", "b"}).out == {"b"}
    assert decide(_reports(a="b", b=""), ()).out == {"b"}


def test_in_whichever_direction_they_cannot_connect() -> None:
    assert decide(_reports(a="c", b="c", c=""), "abc").out == {"c"}
    assert decide(_reports(a="", b="", c="ab"), "abc").out == {"c"}


def test_a_worker_that_reaches_few_is_left_out_and_not_all_that_it_names() -> None:
    assert decide(_reports(a="bcd", b="", c="", d=""), "abcd").out == {"a"}


def test_the_larger_part_of_a_divided_network_goes_on() -> None:
    assert decide(_reports(a="cde", b="cde", c="", d="", e=""), "abcde").out == {"a", "b"}


def test_who_is_gone_counts_for_nothing() -> None:
    assert decide(_reports(a="z", b=""), "ab") == Verdict()
