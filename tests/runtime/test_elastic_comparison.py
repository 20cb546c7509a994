"""A worker that computes wrongly leaves, by name; one that is slow is named, and may leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workers import workers

torch = pytest.importorskip("torch")
pytest.importorskip("torchft")

from trainwright_runtime import elastic  # noqa: E402
from trainwright_runtime.elastic.audit import verify  # noqa: E402
from trainwright_runtime.elastic.comparison import (  # noqa: E402
    Comparison,
    Found,
    Policy,
    differing,
    digest,
)
from trainwright_runtime.elastic.errors import DiffersFromAll, NoMajority, Slow  # noqa: E402
from trainwright_runtime.elastic.members import Members  # noqa: E402
from trainwright_runtime.failures import exit_codes  # noqa: E402
from trainwright_runtime.failures.errors import EnvironmentMistake  # noqa: E402
from trainwright_runtime.report import load  # noqa: E402

SCRIPT = Path(__file__).parent / "elastic_wrong.py"
NAMES = ("w0-1f", "w1-2f", "w2-3f")


@given(
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.int8]),
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    data=st.data(),
)
def test_any_bit_that_flips_changes_the_digest(
    dtype: Any, sizes: list[int], data: st.DataObject
) -> None:
    held = [torch.ones(size, dtype=dtype) for size in sizes]
    before = digest(held)
    assert before == digest([tensor.clone() for tensor in held])
    assert 0 <= before == int(float(before)), "a float64 holds it"
    flipped = data.draw(st.sampled_from(held)).view(torch.uint8)
    if len(flipped):
        byte = data.draw(st.integers(0, len(flipped) - 1))
        flipped[byte] ^= 1 << data.draw(st.integers(0, 7))
        assert digest(held) != before


@pytest.mark.parametrize(
    ("digests", "processes", "expected"),
    [
        ([7, 7, 7], 1, set()),
        ([7, 8, 7], 1, {1}),
        ([7, 8, 7, 9, 7], 1, {1, 3}),
        ([7, 8], 1, None),
        ([7, 7, 8, 8], 1, None),
        ([7, 8, 9], 1, None),
        ([1, 2, 1, 2, 1, 2], 2, set()),  # shards of two processes
        ([1, 2, 1, 3, 1, 2], 2, {3}),
        ([1, 2, 1, 3], 2, None),
    ],
)
def test_who_differs_from_most(
    digests: list[int], processes: int, expected: set[int] | None
) -> None:
    assert differing(digests, processes) == expected


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7))
def test_those_that_stay_are_most_and_hold_the_same(digests: list[int]) -> None:
    wrong = differing(digests)
    if wrong is None:
        assert all(2 * digests.count(one) <= len(digests) for one in digests)
    else:
        stay = [one for rank, one in enumerate(digests) if rank not in wrong]
        assert len({*stay}) == 1
        assert 2 * len(stay) > len(digests)


class Together:
    """What the members of a step find, each by itself, and that they find the same."""

    def __init__(self, names: tuple[str, ...] = NAMES, processes: int = 1, **policy: int) -> None:
        self._policy = Policy(every=1, **policy)
        self._processes = processes
        self._made: dict[str, Comparison] = {}
        self.names = list(names)
        self.ended: list[str] = []

    def judge(self, *seconds: float, digests: tuple[int, ...] = ()) -> Found:
        """They compare themselves; who leaves is gone afterwards."""
        names = tuple(self.names)
        each = [
            Members(quorum=1, rank=rank, names=names, processes=self._processes)
            for rank in range(len(names))
        ]
        made = [self._made.setdefault(name, Comparison(self._policy)) for name in names]
        samples = [
            made[rank].sample(each[rank], [torch.full((1,), float(held))], took)
            for rank, (held, took) in enumerate(
                zip(digests or (7,) * len(names), seconds, strict=True)
            )
        ]
        summed = [sum(numbers) for numbers in zip(*samples, strict=True)]
        found = []
        for rank, name in enumerate(names):
            try:
                found.append(made[rank].judge(6, each[rank], summed))
            except (DiffersFromAll, Slow) as error:
                self.ended.append(f"{name}: {error}")
                self.names.remove(name)
        assert all(one == found[0] for one in found)
        return found[0]


def test_the_one_that_differs_ends_and_the_others_name_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    together = Together()
    assert together.judge(1, 1, 1, digests=(7, 8, 7)).leaving == ["w1"]
    [ended] = together.ended
    assert ended.startswith("w1-2f: step 6: the parameters of w1 are not those of the other")
    assert DiffersFromAll.exit_code == exit_codes.NODE_FAULT
    assert "step 6: the parameters of w1 are not those of the other workers" in caplog.text


def test_of_two_both_end_and_both_are_named() -> None:
    with pytest.raises(NoMajority, match="w0, w1 differ"):
        Together(NAMES[:2]).judge(1, 1, digests=(7, 8))


SLOW, CALM = (1.0, 2.5, 1.1), (1.0, 1.0, 1.0)


def test_one_that_is_slow_for_long_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    together = Together()
    times = [SLOW, SLOW, CALM, SLOW, SLOW, SLOW, SLOW, CALM, SLOW, SLOW, SLOW]
    seen = [[*together.judge(*seconds).slow] for seconds in times]
    assert seen == [[], [], [], [], [], ["w1"], [], [], [], [], ["w1"]]
    assert "w1 computes for 2.5 s, half of the workers for 1.1 s at most" in caplog.text
    assert not together.ended


def test_a_slow_one_leaves_where_it_is_to_be_replaced() -> None:
    together = Together(replaced=1)
    assert [[*together.judge(*seconds).leaving] for seconds in (SLOW, SLOW, SLOW)] == [
        [], [], ["w1"]
    ]  # fmt: skip
    [ended] = together.ended
    assert ended == (
        "w1-2f: step 6: w1 computes for 2.5 s, half of the workers for 1.1 s at most, and was as "
        "slow in 3 comparisons in a row: it leaves, so that they need not, and is replaced"
    )
    together.names.append("w1-4f")  # it knows nothing, and is as slow
    assert not any(together.judge(1.0, 1.1, 2.5).leaving for _ in range(9)), "one in all"


@pytest.mark.parametrize(
    ("names", "processes", "least"), [(NAMES, 1, 3), (("n0-1", "n0-1", "n1-2", "n1-2"), 2, 2)]
)
def test_none_leaves_where_too_few_would_be_left(
    names: tuple[str, ...], processes: int, least: int
) -> None:
    seconds = [2.5, *[1.0] * (len(names) - 1)]
    many = Together(names, processes, replaced=9, least=least)
    assert not any(many.judge(*seconds).leaving for _ in range(9))


@given(st.lists(st.lists(st.sampled_from([1.0, 2.5, 4.0]), min_size=5, max_size=5), max_size=30))
def test_one_at_a_time_the_slowest_and_never_too_many(steps: list[list[float]]) -> None:
    together = Together(tuple(f"w{n}-f" for n in range(5)), replaced=3, least=3)
    since = 0
    for seconds in steps:
        shown = seconds[: len(together.names)]
        before = [*together.names]
        leaving = together.judge(*shown).leaving
        since += 1
        if leaving:
            assert since >= 3, "members get to know each other anew"
            assert len(leaving) == 1
            assert shown[before.index(f"{leaving[0]}-f")] == max(shown)
            since = 0
    assert len(together.names) >= 3


def test_a_sample_is_at_its_place_in_the_sum_of_all() -> None:
    held = [torch.ones(3)]
    members = Members(quorum=1, rank=1, names=NAMES)
    sample = Comparison(Policy()).sample(members, held, 1.5)
    assert sample == [*[0.0] * 4, digest(held), 1.5, 0, 0, *[0.0] * 4]


def test_every_how_many_steps() -> None:
    many = Members(quorum=1, rank=0, names=NAMES)
    fourth = Comparison(Policy(every=4))
    assert [step for step in range(9) if fourth.due(step, many)] == [0, 4, 8]
    assert not Comparison(Policy()).due(4, many)
    assert not fourth.due(4, Members(quorum=1, rank=0, names=NAMES[:1]))
    assert not fourth.due(4, Members(quorum=1, rank=0, names=NAMES[:2], processes=2))


def test_what_the_environment_sets() -> None:
    assert Policy.of({}) == Policy.of({"TRAINWRIGHT_COMPARE_EVERY": "0"}) == Policy()
    given = {
        "TRAINWRIGHT_COMPARE_EVERY": "100",
        "TRAINWRIGHT_REPLACE_SLOW": "2",
        "TRAINWRIGHT_MIN_REPLICAS": "3",
    }
    assert Policy.of(given) == Policy(every=100, replaced=2, least=3)
    with pytest.raises(EnvironmentMistake, match="is '1e3', expected a number of steps"):
        Policy.of({"TRAINWRIGHT_COMPARE_EVERY": "1e3"})
    with pytest.raises(EnvironmentMistake, match="is '-1', expected how many slow workers"):
        Policy.of({"TRAINWRIGHT_REPLACE_SLOW": "-1"})
    with pytest.raises(EnvironmentMistake, match="is 'two', expected a number of replicas"):
        Policy.of({"TRAINWRIGHT_MIN_REPLICAS": "two"})
    with pytest.raises(EnvironmentMistake, match="expected 0, or TRAINWRIGHT_COMPARE_EVERY"):
        Policy.of({"TRAINWRIGHT_REPLACE_SLOW": "1"})


def test_local_steps_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINWRIGHT_COMPARE_EVERY", "5")
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        pytest.raises(EnvironmentMistake, match="expected 0 with synchronize="),
        elastic.training(
            model, optimizer, [1.0], batch_size=1, synchronize=elastic.LocalSGD(every=2)
        ),
    ):
        pass


@pytest.mark.slow
def test_a_bit_that_flips_costs_that_worker_alone(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics"
    environ = {"TRAINWRIGHT_COMPARE_EVERY": "5", "TRAINWRIGHT_METRICS_DIR": str(metrics)}
    with workers(tmp_path, "w0 w1 w2", "60", script=SCRIPT, environ=environ) as group:
        (tmp_path / "slow-w2").touch()
        group.wait_for_world(3)
        (tmp_path / "flip-w1").touch()
        assert group.processes["w1"].wait(120), group.logs()
        last = max(group.commits().values())
        group.start("w1")
        group.wait_for_commit(last, workers=3)
        (tmp_path / "slow-w2").unlink()
        assert set(group.wait().values()) == {0}, group.logs()
        logs = group.logs()
    assert "the parameters of w1 are not those of the other workers" in logs
    assert not verify(group.audit).problems
    events = [event for path in metrics.iterdir() for event in load(path).events]
    assert {event.fields["worker"] for event in events if event.name == "slow"} <= {"w2"}


@pytest.mark.slow
def test_of_two_that_differ_none_trains_on(tmp_path: Path) -> None:
    environ = {"TRAINWRIGHT_COMPARE_EVERY": "5", "TRAINWRIGHT_MIN_REPLICAS": "2"}
    with workers(tmp_path, "w0 w1", "60", script=SCRIPT, environ=environ) as group:
        group.wait_for_world(2)
        (tmp_path / "flip-w1").touch()
        assert set(group.wait().values()) == {exit_codes.FAILED}, group.logs()
        assert "w0, w1 differ after the same updates" in group.logs()
