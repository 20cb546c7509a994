"""Which workers take the next step, and when: the rules of docs/elastic-protocol.md."""

from __future__ import annotations

import pytest

from trainwright_runtime.coordination.quorum import Patience, Quorums, members

PATIENCE = Patience(least=2, join=10.0)

# Who requests the step, who is heard of, who took the last one, for how many seconds the first has
# waited, and who takes it.
CASES = {
    "all of them": ("ab", "ab", "", 0.0, "ab"),
    "the members of the last step": ("ab", "abc", "ab", 0.0, "ab"),
    "and who is new": ("abc", "abcd", "ab", 0.0, "abc"),
    "not without a member that is there": ("bc", "abc", "ab", 9.9, ""),
    "more than half, after a while": ("bc", "abc", "ab", 10.0, "bc"),
    "half of them is too few": ("ab", "abcd", "abc", 600.0, ""),
    "fewer than there have to be": ("a", "a", "a", 600.0, ""),
    "who is not heard of does not count": ("abc", "ab", "abc", 0.0, "ab"),
    "nor for how many there have to be": ("ab", "a", "ab", 600.0, ""),
}


@pytest.mark.parametrize(
    ("requested", "alive", "before", "waited", "taken"), CASES.values(), ids=CASES.keys()
)
def test_who_takes_the_next_step(
    requested: str, alive: str, before: str, waited: float, taken: str
) -> None:
    since = {name: waited * index for index, name in enumerate(requested)}  # the first since 0
    assert members(since, alive, before, waited, PATIENCE) == (frozenset(taken) or None)


_MEMBER = {
    "unreached": [], "step": 1, "holds": True, "view": 0, "state": "at:1",
    "lineage": "1/a", "group": 0, "position": "", "declared": "",
}  # fmt: skip


def test_who_gave_up_waiting_is_waited_for_if_it_took_the_last_step() -> None:
    quorums = Quorums(Patience(heartbeat=60), clock=lambda: 0)
    for name in "ab":
        quorums.beat(name)
        quorums.request(name, _MEMBER)
    quorums.tick()  # the first step, which time decides
    quorums.withdraw(quorums.request("new", _MEMBER))
    quorums.withdraw(quorums.request("a", _MEMBER))
    last = quorums.request("b", _MEMBER)
    assert last.answer is None  # a has not come back
    again = quorums.request("a", _MEMBER)
    assert again.answer
    assert last.answer
