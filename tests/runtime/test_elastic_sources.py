"""Positions that survive anything: random workers come, go and fail, each record counts once."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_runtime.elastic.cursor import Cursor, cursors, permutation
from trainwright_runtime.elastic.leases import Leases, Shards
from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.source import NOTHING, Batching, Share, Source

Record = tuple[str, int]
WHOLE = Batching(collate=list, micro_batch=1_000_000)


class Numbers:
    """Each sample is its own index."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Record:
        return "", index


def cursor(dataset: Any, **options: Any) -> Cursor:
    options = {"seed": 0, "shuffle": False, **options}
    return cursors({"train": dataset}, WHOLE, **options)["train"]


def leases(shards: Shards, *, seed: int = 0, shuffle: bool = False) -> Leases:
    return Leases(shards, WHOLE, seed=seed, shuffle=shuffle)


def samples(pieces: list[tuple[int, list[Record]]]) -> list[Record]:
    return [record for _, piece in pieces for record in piece]


def _stream(lengths: dict[str, int]) -> Callable[[str, int], Iterator[Record]]:
    return lambda name, skip: ((name, i) for i in range(skip, lengths[name]))


@dataclass
class Replica:
    """A worker's replicated state: the position, and every record in its weights."""

    source: Source
    steps: int = 0
    trained: list[Record] = field(default_factory=list)

    def heal(self, other: Replica) -> None:
        self.source.load_state_dict(copy.deepcopy(other.source.state_dict()))
        self.steps, self.trained = other.steps, list(other.trained)


def _train(make: Callable[[], Source], batch: int, draw: st.DrawFn) -> list[Record]:
    """One epoch of torchft's protocol: who is behind is healed, who fails does not commit."""
    replicas = {"w0": Replica(make())}
    born = 1
    while True:
        for _ in range(draw(st.integers(0, 2))):
            replicas[f"w{born}"] = Replica(make())
            born += 1
        best = max(replicas.values(), key=lambda replica: replica.steps)
        for replica in replicas.values():
            if replica.steps < best.steps:
                replica.heal(best)
        if best.source.finished:
            return best.trained
        names = tuple(draw(st.permutations(sorted(replicas))))
        members = [Members(quorum=1, rank=rank, names=names) for rank in range(len(names))]
        taken = [replicas[m.names[m.rank]].source.take(m, batch) for m in members]
        reports = [
            sum(numbers)
            for numbers in zip(
                *(
                    replicas[m.names[m.rank]].source.report(m, share)
                    for m, (share, _) in zip(members, taken, strict=True)
                ),
                strict=True,
            )
        ]
        records = [record for _, pieces in taken for record in samples(pieces)]
        committing = draw(st.sets(st.sampled_from(names))) if draw(st.booleans()) else set(names)
        for m in members:
            name = m.names[m.rank]
            if name in committing:
                replica = replicas[name]
                assert replica.source.commit(m, batch, reports) == len(records)
                replica.steps += 1
                replica.trained += records
        dying = draw(st.sets(st.sampled_from(names), max_size=len(names) - 1))
        for name in dying:
            del replicas[name]


@given(st.data(), st.integers(1, 60), st.integers(1, 13), st.booleans())
def test_a_cursor_trains_each_record_once(
    data: st.DataObject, length: int, batch: int, shuffle: bool
) -> None:
    trained = _train(lambda: cursor(Numbers(length), seed=7, shuffle=shuffle), batch, _draw(data))
    order = permutation(length, 7, 0).tolist() if shuffle else list(range(length))
    assert trained == [("", index) for index in order]


@given(
    st.data(),
    st.lists(st.integers(0, 17), min_size=1, max_size=6),
    st.integers(1, 9),
    st.booleans(),
)
def test_leased_shards_train_each_record_once(
    data: st.DataObject, lengths: list[int], batch: int, shuffle: bool
) -> None:
    shards = {f"part-{number}": length for number, length in enumerate(lengths)}
    trained = _train(
        lambda: leases(Shards(names=list(shards), open=_stream(shards)), seed=7, shuffle=shuffle),
        batch,
        _draw(data),
    )
    expected = {(name, i): 1 for name, length in shards.items() for i in range(length)}
    assert Counter(trained) == expected


@dataclass
class Local(Replica):
    """A worker that takes steps of its own until the next synchronisation."""

    share: Share = NOTHING
    read: list[Record] = field(default_factory=list)

    def heal(self, other: Replica) -> None:
        super().heal(other)
        self.forget()

    def forget(self) -> None:
        self.share, self.read = NOTHING, []


def _train_locally(make: Callable[[], Source], batch: int, draw: st.DrawFn) -> list[Record]:
    """One epoch: a worker lost before a synchronisation is not in it, one that fails it tries anew."""
    replicas = {"w0": Local(make())}
    born = 1
    while True:
        for _ in range(draw(st.integers(0, 2))):
            replicas[f"w{born}"] = Local(make())
            born += 1
        best = max(replicas.values(), key=lambda replica: replica.steps)
        for replica in replicas.values():
            if replica.steps < best.steps:
                replica.heal(best)
        names = tuple(draw(st.permutations(sorted(replicas))))
        members = [Members(quorum=1, rank=rank, names=names) for rank in range(len(names))]
        present = [replicas[name] for name in names]
        reported = [r.source.report(m, r.share) for m, r in zip(members, present, strict=True)]
        reports = [sum(numbers) for numbers in zip(*reported, strict=True)]
        records = [record for replica in present for record in replica.read]
        committing = draw(st.sets(st.sampled_from(names))) if draw(st.booleans()) else set(names)
        for m, replica in zip(members, present, strict=True):
            if m.names[m.rank] in committing:
                if any(reports):
                    assert replica.source.commit(m, batch, reports) == len(records)
                replica.steps += 1
                replica.trained += records
                replica.forget()
                _read_locally(replica, m, batch, draw)
        if best.source.finished:
            return best.trained
        for name in draw(st.sets(st.sampled_from(names), max_size=len(names) - 1)):
            del replicas[name]


def _read_locally(replica: Local, members: Members, batch: int, draw: st.DrawFn) -> None:
    if not replica.source.finished:
        steps = replica.source.take_local(members, batch)
        told_to_stop = draw(st.none() | st.integers(1, 3))
        for replica.share, pieces in islice(steps, told_to_stop):
            replica.read += samples(pieces)


@given(st.data(), st.integers(1, 60), st.integers(1, 13), st.integers(1, 5), st.booleans())
def test_a_cursor_trains_each_record_once_in_local_steps(
    data: st.DataObject, length: int, batch: int, steps: int, shuffle: bool
) -> None:
    trained = _train_locally(
        lambda: cursor(Numbers(length), seed=7, shuffle=shuffle, local_steps={"train": steps}),
        batch,
        _draw(data),
    )
    assert Counter(trained) == {("", index): 1 for index in range(length)}


@given(
    st.data(),
    st.lists(st.integers(0, 17), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_leased_shards_train_each_record_once_in_local_steps(
    data: st.DataObject, lengths: list[int], batch: int, steps: int
) -> None:
    lengths_by_name = {f"part-{number}": length for number, length in enumerate(lengths)}
    shards = Shards(names=list(lengths_by_name), open=_stream(lengths_by_name))
    trained = _train_locally(
        lambda: Leases(shards, WHOLE, seed=7, shuffle=True, local_steps=steps), batch, _draw(data)
    )
    expected = {(name, i): 1 for name, length in lengths_by_name.items() for i in range(length)}
    assert Counter(trained) == expected


def test_what_lost_workers_had_begun_is_read_without_local_steps_too() -> None:
    """A checkpoint of local steps, resumed by a training that commits each step."""
    source, resumed = cursor(Numbers(24), local_steps={"train": 3}), cursor(Numbers(24))
    two = Members(quorum=0, rank=1, names=("w0", "w1"))
    *_, (share, _) = source.take_local(two, 4)
    assert source.commit(two, 4, source.report(two, share)) == 6  # w0 is lost
    resumed.load_state_dict(copy.deepcopy(source.state_dict()))
    alone = Members(quorum=1, rank=0, names=("w1",))
    read = []
    while not resumed.finished:
        read += [index for _, index in samples(resumed.take(alone, 4)[1])]
        resumed.commit(alone, 4, [])
    assert read == [*range(6), *range(12, 24)]


def test_local_steps_are_the_records_of_the_same_batches() -> None:
    """With all present: what one worker reads in a step, two read in that step together."""
    alone = cursor(Numbers(22), local_steps={"train": 3})
    both = [cursor(Numbers(22), local_steps={"train": 3}) for _ in range(2)]
    one = Members(quorum=0, rank=0, names=("w0",))
    two = [Members(quorum=0, rank=rank, names=("w0", "w1")) for rank in range(2)]
    whole = [samples(pieces) for _, pieces in alone.take_local(one, 4)]
    assert [len(step) for step in whole] == [4, 4, 4]
    halves = [
        [samples(pieces) for _, pieces in source.take_local(members, 4)]
        for source, members in zip(both, two, strict=True)
    ]
    assert [[len(step) for step in half] for half in halves] == [[2, 2, 2]] * 2
    assert sorted(chain(*whole)) == sorted(chain(*chain(*halves)))


def _draw(data: st.DataObject) -> st.DrawFn:
    return data.draw  # type: ignore[return-value]


def test_a_shard_stays_with_its_worker_while_others_come_and_go() -> None:
    lengths = {"a": 9, "b": 9, "c": 9}
    source = leases(Shards(names=list(lengths), open=_stream(lengths)))
    two = Members(quorum=1, rank=1, names=("w0", "w1"))
    share, pieces = source.take(two, 4)
    assert (share.unit, samples(pieces)) == ("b", [("b", 0), ("b", 1)])
    source.commit(two, 4, [2, 0, 2, 0])
    three = Members(quorum=2, rank=2, names=("w2", "w0", "w1"))
    share, pieces = source.take(three, 6)
    assert (share.unit, samples(pieces)) == ("b", [("b", 2), ("b", 3)])


def test_a_step_that_is_not_committed_is_read_again() -> None:
    source = cursor(Numbers(10))
    alone = Members(quorum=0, rank=0, names=("w0",))
    first = source.take(alone, 4)
    assert source.take(alone, 4) == first
    source.commit(alone, 4, [])
    assert [index for _, index in samples(source.take(alone, 4)[1])] == [4, 5, 6, 7]


def test_another_order_of_records_is_not_gone_on_with() -> None:
    state = cursor(Numbers(10), seed=1, shuffle=True).state_dict()
    with pytest.raises(ValueError, match=r"seed = 1, this one 2"):
        cursor(Numbers(10), seed=2, shuffle=True).load_state_dict(state)


def test_datasets_that_can_fetch_many_samples_at_once_are_asked_to() -> None:
    class Many(Numbers):
        def __getitems__(self, indices: list[int]) -> list[Record]:
            return [("many", index) for index in indices]

    _, pieces = cursor(Many(5)).take(Members(quorum=0, rank=0, names=("w0",)), 2)
    assert samples(pieces) == [("many", 0), ("many", 1)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_record_that_cannot_be_read_is_told_to_who_asks_for_it(num_workers: int) -> None:
    class Torn(Numbers):
        def __getitem__(self, index: int) -> Record:
            if index == 5:
                raise OSError("record 5")
            return super().__getitem__(index)

    alone = Members(quorum=0, rank=0, names=("w0",))
    source = cursor(Torn(10), num_workers=num_workers)
    source.take(alone, 4)
    source.commit(alone, 4, [])
    with pytest.raises(OSError, match="record 5"):  # read ahead
        source.take(alone, 4)
    two = Members(quorum=1, rank=0, names=("w0", "w1"))
    assert [index for _, index in samples(source.take(two, 2)[1])] == [4]
    source.close()


@pytest.mark.parametrize("names", [[], ["a", "a"]])
def test_shards_have_names_of_their_own(names: list[str]) -> None:
    with pytest.raises(ValueError, match="shards need names"):
        leases(Shards(names=names, open=lambda name, skip: ()))


def test_an_empty_dataset_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        cursor(Numbers(0))


# --- several processes in a replica --------------------------------------------------------------


@given(
    length=st.integers(1, 40),
    batch=st.integers(1, 16),
    micro_batch=st.integers(1, 5),
    nodes=st.integers(1, 3),
    processes=st.integers(2, 4),
)
def test_the_processes_of_a_replica_go_through_the_model_together(
    length: int, batch: int, micro_batch: int, nodes: int, processes: int
) -> None:
    """FSDP's collectives need all of them; each record counts once all the same.

    What does not count is a piece that counts in this step: a batch norm or a masked loss that can
    not take it could not go through the step anyway.
    """
    batching = Batching(collate=list, micro_batch=micro_batch)
    names = tuple(f"w{rank}" for rank in range(nodes * processes))
    ranks = range(len(names))
    sources = [
        cursors({"train": Numbers(length)}, batching, seed=1, shuffle=True)["train"] for _ in ranks
    ]
    members = [Members(quorum=1, rank=rank, names=names, processes=processes) for rank in ranks]
    read: list[Record] = []
    try:
        while not sources[0].finished:
            taken = [source.take(m, batch) for source, m in zip(sources, members, strict=True)]
            for share, pieces in taken:
                counted = [piece for records, piece in pieces if records]
                assert sum(map(len, counted)) == len(share)
                read += chain.from_iterable(counted)
                assert all(piece == counted[0] for n, piece in pieces if not n and counted)
            counts = [len(pieces) for _, pieces in taken]
            for first in range(0, len(names), processes):
                assert len(set(counts[first : first + processes])) == 1
                together = [piece for _, p in taken[first : first + processes] for piece in p]
                counting = [piece for n, piece in together if n]
                assert all(piece in counting for _, piece in together)
            assert all(0 not in [n for n, _ in p[:1]] for share, p in taken if len(share))
            for source, m in zip(sources, members, strict=True):
                source.commit(m, batch, [])
    finally:
        for source in sources:
            source.close()
    assert sorted(index for _, index in read) == list(range(length))
