"""A worker that computes wrongly leaves, by name; one that is slow is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workers import workers

torch = pytest.importorskip("torch")
pytest.importorskip("torchft")

from trainwright_runtime import elastic, exit_codes  # noqa: E402
from trainwright_runtime.elastic.audit import verify  # noqa: E402
from trainwright_runtime.elastic.comparison import (  # noqa: E402
    Comparison,
    differing,
    digest,
    steps_between,
)
from trainwright_runtime.elastic.errors import DiffersFromAll, NoMajority  # noqa: E402
from trainwright_runtime.elastic.members import Members  # noqa: E402
from trainwright_runtime.errors import EnvironmentMistake  # noqa: E402
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


def _judged(
    samples: list[tuple[int, float]], rank: int, by: Comparison | None = None
) -> tuple[list[str], list[str]]:
    members = Members(quorum=1, rank=rank, names=NAMES[: len(samples)])
    flat = [float(number) for sample in samples for number in sample]
    found = (by or Comparison(1)).judge(6, members, flat)
    return [*found.wrong], [*found.slow]


def test_the_one_that_differs_ends_and_the_others_name_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    samples = [(7, 1.0), (8, 1.0), (7, 1.0)]
    with pytest.raises(DiffersFromAll, match="step 6: the parameters of w1 are not") as ended:
        _judged(samples, rank=1)
    assert ended.value.exit_code == exit_codes.NODE_FAULT
    assert _judged(samples, rank=0) == (["w1"], [])
    assert "step 6: the parameters of w1 are not those of the other workers" in caplog.text


@pytest.mark.parametrize("rank", [0, 1])
def test_of_two_both_end_and_both_are_named(rank: int) -> None:
    with pytest.raises(NoMajority, match="w0, w1 differ"):
        _judged([(7, 1.0), (8, 1.0)], rank)


def test_one_that_is_slow_for_long_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    comparison = Comparison(1)
    slow, calm = [(7, 1.0), (7, 2.5), (7, 1.1)], [(7, 1.0), (7, 1.0), (7, 1.0)]
    seen = [
        _judged(samples, 0, comparison)[1]
        for samples in [slow, slow, calm, slow, slow, slow, slow, calm, slow, slow, slow]
    ]
    assert seen == [[], [], [], [], [], ["w1"], [], [], [], [], ["w1"]]
    assert "w1 computes for 2.5 s, half of the workers for 1.1 s at most" in caplog.text


def test_a_sample_is_at_its_place_in_the_sum_of_all() -> None:
    held = [torch.ones(3)]
    sums = [0.0] * 6
    for rank in range(3):
        members = Members(quorum=1, rank=rank, names=NAMES)
        sample = Comparison(1).sample(members, held, rank + 0.5)
        sums = [a + b for a, b in zip(sums, sample, strict=True)]
    assert sums == [digest(held), 0.5, digest(held), 1.5, digest(held), 2.5]


def test_every_how_many_steps() -> None:
    many = Members(quorum=1, rank=0, names=NAMES)
    assert [step for step in range(9) if Comparison(4).due(step, many)] == [0, 4, 8]
    assert not Comparison(0).due(4, many)
    assert not Comparison(4).due(4, Members(quorum=1, rank=0, names=NAMES[:1]))
    assert not Comparison(4).due(4, Members(quorum=1, rank=0, names=NAMES[:2], processes=2))
    assert steps_between({}) == steps_between({"TRAINWRIGHT_COMPARE_EVERY": "0"}) == 0
    assert steps_between({"TRAINWRIGHT_COMPARE_EVERY": "100"}) == 100
    with pytest.raises(EnvironmentMistake, match="is '1e3', expected a number of steps"):
        steps_between({"TRAINWRIGHT_COMPARE_EVERY": "1e3"})


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
