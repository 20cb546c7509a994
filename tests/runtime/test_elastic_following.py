"""A newcomer takes over the state while the others take steps, and has it to the bit afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from workers import workers

torch = pytest.importorskip("torch")
pytest.importorskip("torchft")

from trainwright_runtime.coordination.quorum import Patience, Quorums  # noqa: E402
from trainwright_runtime.elastic import following  # noqa: E402
from trainwright_runtime.elastic.audit import verify  # noqa: E402
from trainwright_runtime.elastic.following import UPDATE, Followers, Following  # noqa: E402
from trainwright_runtime.elastic.transport import Received, Transport, pack  # noqa: E402

PATIENCE = timedelta(seconds=60)
SCRIPT = Path(__file__).parent / "elastic_joining.py"


def _state(value: float) -> dict[str, Any]:
    return {"model": {"weight": torch.full((3,), value)}, "progress": {"step": int(value)}}


@contextmanager
def _followed(
    waits: Callable[[], bool] = bool, progress: Callable[[], object] = bool
) -> Iterator[tuple[Followers, Following, list[dict[str, Any]]]]:
    """A member, a newcomer that follows it, and what that was given to take."""
    taken: list[dict[str, Any]] = []

    def take(state: Received) -> None:
        taken.append({name: state.pop(name) for name in list(state)})

    followers = Followers(waits)
    served = threading.Event()

    def serve(channel: Any, declared: str) -> None:
        assert declared == "this"
        followers.serve(channel)
        served.set()

    with (
        closing(Transport("127.0.0.1", PATIENCE, follow=serve)) as transport,
        closing(Following(transport.address, "this", 60, take, progress)) as newcomer,
    ):
        while not followers._all:
            pass
        yield followers, newcomer, taken
        newcomer.close()
        followers.end()
        assert served.wait(60)
        assert not followers._all


def test_a_newcomer_gets_the_state_and_what_is_learned_since() -> None:
    state = _state(1)
    with _followed() as (followers, newcomer, taken):
        followers.pass_on(lambda: {"sums": 0})  # of the step before the state is copied
        followers.begin(lambda: state)
        state["model"]["weight"].fill_(2)  # it goes on, and what was copied stays
        gradient = torch.ones(2)
        followers.pass_on(lambda: {"sums": [gradient]})
        gradient.zero_()
        followers.begin(lambda: pytest.fail("copied again"))
        newcomer.advance()
        assert newcomer.advance() == 0
        assert str(taken) == str([_state(1), {UPDATE: {"sums": [torch.ones(2)]}}])
        assert not newcomer.readable()


def test_nothing_is_copied_while_none_follows() -> None:
    followers = Followers(bool)
    followers.begin(lambda: pytest.fail("copied"))
    followers.pass_on(lambda: pytest.fail("copied"))


def test_one_that_is_too_slow_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LEAST", 100)
    with _followed() as (followers, newcomer, _):
        followers.begin(lambda: _state(1))
        assert newcomer.advance() == 0
        followers.pass_on(lambda: {"sums": [torch.ones(1000)]})
        with pytest.raises(OSError, match="closed"):
            newcomer.advance()


def test_one_that_the_others_wait_for_is_left_to_join() -> None:
    """Where too few are there for a step, none ends after which the state could be copied."""
    with _followed(waits=lambda: True) as (_, newcomer, taken):
        with pytest.raises(OSError, match="closed"):
            newcomer.advance()
        assert not taken


def test_who_is_to_stop_waits_for_no_copy() -> None:
    """A step may take longer than its grace period."""

    def stop() -> None:
        raise ConnectionError("this worker is to stop")

    with _followed(progress=stop) as (_, newcomer, taken):
        with pytest.raises(ConnectionError, match="is to stop"):
            newcomer.advance()
        assert not taken


def test_a_member_of_the_last_step_that_is_alive_is_followed() -> None:
    quorums = Quorums(Patience(heartbeat=60), clock=lambda: 0)
    assert not quorums.state_address()
    for name in "ab":
        quorums.beat(name)
    for name in "ab":
        quorums.request(name, {**_MEMBER, "state": f"at-{name}:1"})
    assert not quorums.state_address()
    quorums.tick()
    assert {quorums.state_address() for _ in range(100)} == {"at-a:1", "at-b:1"}
    quorums.request("c", {**_MEMBER, "state": "at-c:1"})
    quorums.lost("a")
    assert quorums.state_address() == "at-b:1"


_MEMBER = {
    "unreached": [], "step": 1, "holds": True, "view": 0,
    "lineage": "1/a", "group": 0, "position": "", "declared": "",
}  # fmt: skip


def test_where_there_is_no_room_for_a_copy_none_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_available_memory", lambda: 1e6)
    with _followed() as (followers, newcomer, taken):
        followers.begin(lambda: _state(1))
        with pytest.raises(OSError, match="closed"):
            newcomer.advance()
        assert not taken


def test_who_gets_another_state_is_followed_no_more() -> None:
    with _followed() as (followers, newcomer, _):
        followers.begin(lambda: _state(1))
        newcomer.advance()
        followers.end()
        with pytest.raises(OSError, match="closed"):
            newcomer.advance()


def test_only_what_differs_is_sent_to_who_knows_the_rest() -> None:
    there = {**_state(1), "optimizer": {"m": torch.ones(4), "v": torch.zeros(4), "lr": 0.5}}
    known = {**_state(1), "optimizer": {"m": torch.ones(4), "v": torch.ones(4), "lr": 0.25}}
    with (
        closing(Transport("127.0.0.1", PATIENCE)) as source,
        closing(Transport("127.0.0.1", PATIENCE)) as target,
    ):
        source.offer(7, there)
        sent: list[int] = []
        received = target.fetch(source.address, 7, lambda: sent.append(1), pack(known))
        assert list(received) == ["optimizer"]
        taken = received.pop("optimizer")
        assert str(taken) == str(there["optimizer"])
        assert taken["m"].data_ptr() != known["optimizer"]["m"].data_ptr()
        # Of another shape, or under another name, it is not known.
        other = {"optimizer": {"n": torch.ones(4), "v": torch.zeros(2, 2), "lr": 0.5}}
        taken = target.fetch(source.address, 7, known=pack(other)).pop("optimizer")
        assert str(taken) == str(there["optimizer"])


def test_a_large_state_is_compared_for_longer_than_an_answer_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from trainwright_runtime.elastic import transport

    digest, waiting = transport._digest, threading.Event()

    def slow(name: str, tensor: Any, progress: Callable[[], object]) -> str:
        while threading.current_thread() is not threading.main_thread() and not waiting.is_set():
            progress()
        return digest(name, tensor, progress)

    monkeypatch.setattr(transport, "_digest", slow)
    with (
        closing(Transport("127.0.0.1", PATIENCE)) as source,
        closing(Transport("127.0.0.1", PATIENCE)) as target,
    ):
        source.offer(7, _state(1))
        calls: list[int] = []

        def progress() -> None:
            calls.append(1)
            if len(calls) > 1:  # the first is of the digest here
                waiting.set()

        assert not target.fetch(source.address, 7, progress, pack(_state(1)))


@pytest.mark.slow
@pytest.mark.parametrize("forgetful", ["", "forgetful"], ids=["follows", "cannot"])
def test_a_newcomer_holds_what_the_others_hold_to_the_bit(tmp_path: Path, forgetful: str) -> None:
    """Also where its program cannot follow, for which they wait."""
    arguments = ("4", *([forgetful] if forgetful else []))
    with workers(tmp_path, "w0 w1", *arguments, script=SCRIPT) as group:
        group.wait_for_commit(5, workers=2)
        group.start("w2")
        group.wait_for_commit(workers=3)
        group.hurry()
        assert set(group.wait().values()) == {0}, group.logs()
        logs = group.logs()
    assert not verify(group.audit).problems
    held: dict[int, set[tuple[str, int]]] = {}
    sent: list[dict[str, list[str]]] = []
    steps: dict[str, list[int]] = {}
    for path in tmp_path.glob("state-*"):
        for line in map(json.loads, path.read_text().splitlines()):
            if isinstance(line, dict):
                sent += [line] if path.name.startswith("state-w2") else []
            else:
                held.setdefault(line[0], set()).add((line[1], line[2]))
                steps.setdefault(path.name, []).append(line[0])
    assert {len(states) for states in held.values()} == {1}
    (newcomer,) = (found for name, found in steps.items() if name.startswith("state-w2"))
    assert len({*newcomer} & {*steps[max(steps)]}) > 5
    last = sent[-1]
    if forgetful:
        assert "this program is not ready for it yet" in logs
        assert "/ema/module.0.weight" in last["ema"]
    else:
        assert "/optimizer/state/0/exp_avg" not in last.get("optimizer", [])
        assert {name for part in last.values() for name in part} <= {
            "/model/1.num_batches_tracked", "/ema/module.1.num_batches_tracked",
        }  # fmt: skip
