"""How many steps a backtracking engine takes: Python's, over the tree that Python parses.

The engine of `re` counts nothing, and the time it takes says as much about the machine. So its
parse tree is walked here, choice by choice, with a counter: the steps for a text of twice the
length are a fact of the pattern. The analysers that exist (regexploit, recheck) read other
dialects, or look for exponents alone, and a search that begins again at each letter is quadratic.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Node = tuple[Any, Any]
Then = Callable[[int], bool]

ANCHORED = ("match", "fullmatch")
_BOUND = 600  # of a repetition that may be taken for constant
_LENGTHS = (60, 120, 240)
_ENOUGH = 400_000  # steps
_LINEAR = 2.9  # growth of what is added when the length doubles: 2 is linear, 4 quadratic


class TooMany(Exception):
    pass


class Steps:
    """Matches one pattern against texts, and counts."""

    def __init__(self, tree: list[Node], flags: int, way: str):
        self._way = way  # a method of patterns
        self._flags = flags
        self.tree = _shortened(tree)
        if way == "fullmatch":
            self.tree.append((op.AT, op.AT_END_STRING))
        self.count = 0
        self._text = ""
        self._groups: dict[int, tuple[int, int]] = {}
        self._is = cache(self._is_uncached)
        self._nodes: dict[int, Node] = {}

    def of(self, text: str) -> int:
        """The steps to find every match, or the one at the start."""
        self._text, self.count, at = text, 0, 0
        while at <= len(text):
            ends: list[int] = []
            self._groups = {}
            self._run([*self.tree], 0, at, lambda end, ends=ends: ends.append(end) or True)  # type: ignore[func-returns-value]
            if self._way in ANCHORED:
                break
            at = max(at + 1, ends[0] if ends else 0)
        return self.count

    def _run(self, nodes: list[Node], index: int, at: int, then: Then) -> bool:
        self.count += 1
        if self.count > _ENOUGH:
            raise TooMany
        while index < len(nodes) and _is_single(nodes[index]):
            if not (at < len(self._text) and self.takes(nodes[index], self._text[at])):
                return False
            index, at = index + 1, at + 1
        if index == len(nodes):
            return then(at)
        return self._one(nodes[index], at, lambda end: self._run(nodes, index + 1, end, then))

    def _one(self, node: Node, at: int, then: Then) -> bool:
        kind, argument = node
        if kind is op.AT:
            return self._holds(argument, at) and then(at)
        if kind is op.BRANCH:
            return any(self._run([*way], 0, at, then) for way in argument[1])
        if kind is op.SUBPATTERN:
            group, *_, inner = argument
            return self._run([*inner], 0, at, lambda end: self._kept(group, at, end, then))
        if kind in (op.ASSERT, op.ASSERT_NOT):
            return self._around(argument, at) is (kind is op.ASSERT) and then(at)
        if kind is op.ATOMIC_GROUP:
            ends: list[int] = []
            found = self._run([*argument], 0, at, lambda end: ends.append(end) or True)  # type: ignore[func-returns-value]
            return found and then(ends[0])
        if kind is op.GROUPREF:
            start, end = self._groups.get(argument, (0, -1))
            word = self._text[start:end]
            return end >= start and self._text.startswith(word, at) and then(at + len(word))
        if kind is op.GROUPREF_EXISTS:
            group, yes, no = argument
            return self._run([*((yes if group in self._groups else no) or ())], 0, at, then)
        low, high, inner = argument
        return self._repeated(kind, low, high, [*inner], at, then)

    def _repeated(
        self, kind: Any, low: int, high: int, inner: list[Node], at: int, then: Then
    ) -> bool:
        if len(inner) == 1 and _is_single(inner[0]):
            return self._letters(kind, low, high, inner[0], at, then)
        if kind is op.POSSESSIVE_REPEAT:
            ends = [at]
            while len(ends) <= high and self._run(
                inner, 0, ends[-1], lambda e: e > ends[-1] and not ends.append(e)
            ):
                pass
            return len(ends) > low and then(ends[-1])

        def once(count: int, here: int) -> bool:
            def on(end: int) -> bool:
                return (end > here or count < low) and again(count + 1, end)

            return count < high and self._run(inner, 0, here, on)

        def again(count: int, here: int) -> bool:
            if kind is op.MIN_REPEAT:
                return (count >= low and then(here)) or once(count, here)
            return once(count, here) or (count >= low and then(here))

        return again(0, at)

    def _letters(self, kind: Any, low: int, high: int, node: Node, at: int, then: Then) -> bool:
        most = at
        while most < len(self._text) and most - at < high and self.takes(node, self._text[most]):
            most += 1
            self.count += 1
        if self.count > _ENOUGH:
            raise TooMany
        if most - at < low:
            return False
        if kind is op.POSSESSIVE_REPEAT:
            return then(most)
        ends = range(at + low, most + 1)
        return any(then(end) for end in (ends if kind is op.MIN_REPEAT else reversed(ends)))

    def _kept(self, group: int | None, start: int, end: int, then: Then) -> bool:
        if group is None:
            return then(end)
        before = self._groups.get(group)
        self._groups[group] = (start, end)
        if then(end):
            return True
        self._groups.pop(group)
        if before:
            self._groups[group] = before
        return False

    def _around(self, argument: Any, at: int) -> bool:
        direction, inner = argument
        if direction > 0:
            return self._run([*inner], 0, at, lambda _: True)
        start = at - inner.getwidth()[0]
        return start >= 0 and self._run([*inner], 0, start, lambda end: end == at)

    def _holds(self, where: Any, at: int) -> bool:
        text, many = self._text, self._flags & re.MULTILINE
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0 or bool(where is op.AT_BEGINNING and many and text[at - 1] == "\n")
        if where in (op.AT_END, op.AT_END_STRING):
            last = at == len(text)
            if where is op.AT_END_STRING:
                return last
            return last or text[at:] == "\n" or bool(many and text[at] == "\n")
        word = [0 <= i < len(text) and bool(re.match(r"\w", text[i])) for i in (at - 1, at)]
        return (word[0] != word[1]) is (where is op.AT_BOUNDARY)

    def takes(self, node: Node, letter: str) -> bool:
        self._nodes[id(node)] = node
        return self._is(id(node), letter)

    def _is_uncached(self, key: int, letter: str) -> bool:
        kind, argument = self._nodes[key]
        folded = {letter, letter.lower(), letter.upper()} if self._flags & re.I else {letter}
        codes = {ord(one) for one in folded if len(one) == 1}
        if kind is op.LITERAL:
            return argument in codes
        if kind is op.NOT_LITERAL:
            return argument not in codes
        if kind is op.ANY:
            return letter != "\n" or bool(self._flags & re.S)
        negated = argument[0][0] is op.NEGATE
        return any(_within(item, codes, letter) for item in argument) is not negated


def _within(item: Node, codes: set[int], letter: str) -> bool:
    kind, argument = item
    if kind is op.LITERAL:
        return argument in codes
    if kind is op.RANGE:
        return any(argument[0] <= code <= argument[1] for code in codes)
    if kind is op.CATEGORY:
        return bool(re.match(_CATEGORIES[argument], letter))
    return False


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _is_single(node: Node) -> bool:
    return node[0] in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


def _shortened(tree: Any) -> list[Node]:
    """A tree whose bounded repetitions end after a few, so that short texts show what grows."""
    return [(kind, _shorter(kind, argument)) for kind, argument in tree]


def _shorter(kind: Any, argument: Any) -> Any:
    if kind is op.BRANCH:
        return (None, [_shortened(way) for way in argument[1]])
    if kind in _REPEATS:
        low, high, inner = argument
        ends = high is not op.MAXREPEAT and high <= _BOUND
        most = min(high, 3 + (high > low))
        return (
            min(low, 3),
            most if ends else op.MAXREPEAT,
            _shortened(inner),
        )
    if kind is op.SUBPATTERN:
        return (*argument[:-1], _shortened(argument[-1]))
    if kind is op.ATOMIC_GROUP:
        return _shortened(argument)
    return argument  # what looks around keeps its width


_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


# --- texts that make a pattern go back -----------------------------------------------------------


def growth(pattern: re.Pattern[Any], way: str) -> tuple[float, str]:
    """How the steps grow when the worst text that was found becomes twice as long, and that text.

    The choices of a pattern are looked at one by one, since what is linear in each is so in all;
    what is not may be taken by another choice.
    """
    tree = [*parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)]
    whole = Steps(tree, pattern.flags, way)
    worst: tuple[float, str] = (0.0, "")
    for choice in _choices(tree):
        steps = Steps(choice, pattern.flags, way)
        for pump in _pumps(steps):
            if _grown(steps, pump) > max(worst[0], _LINEAR):
                before, word, after = pump
                named = f"{before!r} + {word!r} * n + {after!r}"
                worst = max(worst, (_grown(whole, pump), named))
    return worst


def _choices(tree: list[Node]) -> Iterator[list[Node]]:
    if len(tree) == 1 and tree[0][0] is op.BRANCH:
        for choice in tree[0][1][1]:
            yield from _choices([*choice])
    elif len(tree) == 1 and tree[0][0] is op.SUBPATTERN:
        yield from _choices([*tree[0][1][-1]])
    else:
        yield tree


def _grown(steps: Steps, pump: tuple[str, str, str]) -> float:
    before, word, after = pump
    counts: list[int] = []
    try:
        for length in _LENGTHS:
            counts.append(steps.of(before + word * (length // len(word) + 1) + after))
            if len(counts) == 2 and counts[1] < 2.5 * counts[0]:
                return 0.0
    except (TooMany, RecursionError):
        return float("inf")
    first, second = (high - low for low, high in pairwise(counts))
    return second / max(first, 1)


def is_linear(found: float) -> bool:
    return found < _LINEAR


def _pumps(steps: Steps) -> Iterator[tuple[str, str, str]]:
    letters = _letters(steps)
    begins = [*dict.fromkeys(("", *_beginnings(steps, letters)))]
    words = [
        *dict.fromkeys(
            (*letters, *filter(None, begins), *(a + b for a in letters[:6] for b in letters[:6]))
        )
    ]
    words += [begin + letter for begin in begins if begin for letter in letters]
    for word in dict.fromkeys(words):
        for before in begins if len(word) == 1 else ("",):
            for after in ("", "\0", "\n!"):
                yield before, word, after


def _letters(steps: Steps) -> list[str]:
    """One letter for each set of classes that take the same letters."""
    classes = [node for node in _all(steps.tree) if _is_single(node)]
    alike: dict[tuple[bool, ...], str] = {}
    for code in (*range(32, 127), 9, 10, 0xE9, 0):
        alike.setdefault(tuple(steps.takes(node, chr(code)) for node in classes), chr(code))
    return [letter for takes, letter in alike.items() if any(takes)][:14]


def _all(tree: Any) -> Iterator[Node]:
    for node in tree:
        kind, argument = node
        yield node
        if kind is op.BRANCH:
            for way in argument[1]:
                yield from _all(way)
        elif kind in (
            op.SUBPATTERN,
            op.MAX_REPEAT,
            op.MIN_REPEAT,
            op.POSSESSIVE_REPEAT,
            op.ASSERT,
            op.ASSERT_NOT,
        ):
            yield from _all(argument[-1])
        elif kind is op.ATOMIC_GROUP:
            yield from _all(argument)


def _beginnings(steps: Steps, letters: list[str]) -> Iterator[str]:
    """Texts that lead to each place of a pattern: what stands before, and one repetition."""
    yield from _leading(steps, letters, steps.tree, "")


def _leading(steps: Steps, letters: list[str], tree: list[Node], before: str) -> Iterator[str]:
    for node in tree:
        kind, argument = node
        if kind is op.BRANCH:
            for way in argument[1]:
                yield from _leading(steps, letters, way, before)
        elif kind in (op.SUBPATTERN, *_REPEATS):
            yield before
            yield from _leading(steps, letters, argument[-1], before)
        before += _sample(steps, letters, [node])
    yield before


def _sample(steps: Steps, letters: list[str], tree: list[Node]) -> str:
    """A text that a pattern takes, as short as can be, but for the ends of repetitions."""
    return "".join(_sample_of(steps, letters, node) for node in tree)


def _sample_of(steps: Steps, letters: list[str], node: Node) -> str:
    kind, argument = node
    if _is_single(node):
        found = next((letter for letter in letters if steps.takes(node, letter)), "")
        return chr(argument) if kind is op.LITERAL and not found else found
    if kind is op.BRANCH:
        return _sample(steps, letters, argument[1][0])
    if kind is op.SUBPATTERN:
        return _sample(steps, letters, argument[-1])
    if kind is op.ATOMIC_GROUP:
        return _sample(steps, letters, argument)
    return _sample(steps, letters, argument[-1]) * argument[0] if kind in _REPEATS else ""


sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
