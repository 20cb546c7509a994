"""How many steps a backtracking engine takes: Python's, over the tree that Python parses.

The engine of `re` counts nothing, and the time it takes says as much about the machine. So its
parse tree is walked here, choice by choice, with a counter: the steps for a text of twice the
length are a fact of the pattern. The analysers that exist (regexploit, recheck) read other
dialects, or look for exponents alone, and a search that begins again at each letter is quadratic.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, takewhile
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Node = tuple[Any, Any]
Then = Callable[[int], bool]
Match = Callable[[int, Then], bool]

ANCHORED = ("match", "fullmatch")
_BOUND = 600  # of a repetition that may be taken for constant
_SHORTEST = 30  # letters
_FEWEST = 5  # words: what begins again at each long one shows with several
_ENOUGH = 400_000  # steps
_LINEAR = 2.9  # growth of what is added when the length doubles: 2 is linear, 4 quadratic


class TooMany(Exception):
    pass


class Steps:
    """Matches one pattern against texts, and counts.

    Each part of the tree becomes a function, once: a pattern is tried on thousands of texts.
    """

    def __init__(self, tree: list[Node], flags: int, way: str):
        self._way = way  # a method of patterns
        self._folds, self._dot_takes_all, self._many = (
            bool(flags & flag) for flag in (re.I, re.S, re.M)
        )
        self.tree = _shortened(tree)
        if way == "fullmatch":
            self.tree.append((op.AT, op.AT_END_STRING))
        self.count = 0
        self._text = ""
        self._letters: list[str] = []  # of the text, and an empty one for its end
        self._groups: dict[int, tuple[int, int]] = {}
        self._match = self._sequence(self.tree)

    def of(self, text: str) -> int:
        """The steps to find every match, or the one at the start."""
        self._text, self._letters, self.count, at = text, [*text, ""], 0, 0
        while at <= len(text):
            ends: list[int] = []
            self._groups = {}
            self._match(at, _first(ends))
            if self._way in ANCHORED:
                break
            at = max(at + 1, ends[0] if ends else 0)
        return self.count

    def _sequence(self, nodes: Sequence[Node]) -> Match:
        """Letters, the first part that is none, and whatever comes after it."""
        singles = [*takewhile(_is_single, nodes)]
        taken = [self.taken(node) for node in singles]
        others = nodes[len(singles) :]
        if not others:
            return lambda at, then: (end := self._after(taken, at)) >= 0 and then(end)
        one, rest = self._one(others[0]), self._sequence(others[1:])
        return lambda at, then: (
            (end := self._after(taken, at)) >= 0 and one(end, lambda reached: rest(reached, then))
        )

    def _after(self, taken: list[Taken], at: int) -> int:
        """Where letters end that begin here, or -1; this is a step."""
        self.count += 1
        if self.count > _ENOUGH:
            raise TooMany
        for each in taken:
            if not each[self._letters[at]]:
                return -1
            at += 1
        return at

    def _one(self, node: Node) -> Match:
        kind, argument = node
        if kind is op.AT:
            holds = self._place(argument)
            return lambda at, then: holds(at) and then(at)
        if kind is op.BRANCH:
            return self._branch([self._sequence(way) for way in argument[1]])
        if kind is op.SUBPATTERN:
            group, *_, inner = argument
            return self._group(group, self._sequence(inner))
        if kind in (op.ASSERT, op.ASSERT_NOT):
            around, wanted = self._around(argument), kind is op.ASSERT
            return lambda at, then: around(at) is wanted and then(at)
        if kind is op.ATOMIC_GROUP:
            return self._atomic(self._sequence(argument))
        if kind is op.GROUPREF:
            return self._reference(argument)
        if kind is op.GROUPREF_EXISTS:
            group, *ways = argument
            return self._conditional(group, *(self._sequence(way or ()) for way in ways))
        low, high, inner = argument
        if len(inner) == 1 and _is_single(inner[0]):
            return self._repeated_letter(kind, low, high, self.taken(inner[0]))
        if kind is op.POSSESSIVE_REPEAT:
            return self._possessive(low, high, self._sequence(inner))
        return self._repeated(kind, low, high, self._sequence(inner))

    def _branch(self, ways: list[Match]) -> Match:
        def match(at: int, then: Then) -> bool:
            for way in ways:  # noqa: SIM110 - a generator takes twice as long
                if way(at, then):
                    return True
            return False

        return match

    def _conditional(self, group: int, yes: Match, no: Match) -> Match:
        def match(at: int, then: Then) -> bool:
            return (yes if group in self._groups else no)(at, then)

        return match

    def _atomic(self, inner: Match) -> Match:
        def match(at: int, then: Then) -> bool:
            ends: list[int] = []
            return inner(at, _first(ends)) and then(ends[0])

        return match

    def _reference(self, group: int) -> Match:
        def match(at: int, then: Then) -> bool:
            start, end = self._groups.get(group, (0, -1))
            word = self._text[start:end]
            return end >= start and self._text.startswith(word, at) and then(at + len(word))

        return match

    def _possessive(self, low: int, high: int, inner: Match) -> Match:
        def match(at: int, then: Then) -> bool:
            ends = [at]
            while len(ends) <= high and inner(
                ends[-1], lambda end: end > ends[-1] and not ends.append(end)
            ):
                pass
            return len(ends) > low and then(ends[-1])

        return match

    def _repeated(self, kind: Any, low: int, high: int, inner: Match) -> Match:
        def match(at: int, then: Then) -> bool:
            def once(count: int, here: int) -> bool:
                def on(end: int) -> bool:
                    return (end > here or count < low) and again(count + 1, end)

                return count < high and inner(here, on)

            def again(count: int, here: int) -> bool:
                if kind is op.MIN_REPEAT:
                    return (count >= low and then(here)) or once(count, here)
                return once(count, here) or (count >= low and then(here))

            return again(0, at)

        return match

    def _repeated_letter(self, kind: Any, low: int, high: int, taken: Taken) -> Match:
        def lazily(at: int, then: Then) -> bool:
            letters, last = self._letters, min(len(self._letters) - 1, at + high)
            for end in range(at, last + 1):
                self.count += 1
                if end - at >= low and then(end):
                    return True
                if end == last or not taken[letters[end]]:
                    return False
            return False

        def match(at: int, then: Then) -> bool:
            letters, most = self._letters, at
            last = min(len(letters) - 1, at + high)
            while most < last and taken[letters[most]]:
                most += 1
            self.count += most - at
            if self.count > _ENOUGH:
                raise TooMany
            if most - at < low:
                return False
            if kind is op.POSSESSIVE_REPEAT:
                return then(most)
            return any(map(then, reversed(range(at + low, most + 1))))

        return lazily if kind is op.MIN_REPEAT else match

    def _group(self, group: int | None, inner: Match) -> Match:
        if group is None:
            return inner
        return lambda at, then: inner(at, lambda end: self._kept(group, at, end, then))

    def _kept(self, group: int, start: int, end: int, then: Then) -> bool:
        before = self._groups.get(group)
        self._groups[group] = (start, end)
        if then(end):
            return True
        self._groups.pop(group)
        if before:
            self._groups[group] = before
        return False

    def _around(self, argument: Any) -> Then:
        direction, inner = argument
        match = self._sequence([*inner])
        if direction > 0:
            return lambda at: match(at, lambda _: True)
        width = inner.getwidth()[0]
        return lambda at: at >= width and match(at - width, lambda end: end == at)

    def _place(self, where: Any) -> Then:
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            many = self._many and where is op.AT_BEGINNING
            return lambda at: at == 0 or (many and self._text[at - 1] == "\n")
        if where is op.AT_END_STRING:
            return lambda at: at == len(self._text)
        if where is op.AT_END:
            return self._is_end
        within = where is op.AT_BOUNDARY
        return lambda at: (self._is_word(at - 1) != self._is_word(at)) is within

    def _is_end(self, at: int) -> bool:
        rest = self._letters[at]
        return rest == "" or (rest == "\n" and (self._many or at == len(self._text) - 1))

    def _is_word(self, at: int) -> bool:
        return 0 <= at < len(self._text) and bool(re.match(r"\w", self._text[at]))

    def taken(self, node: Node) -> Taken:
        """Whether a node takes a letter, of those that it was asked about."""
        return Taken(lambda letter: self._takes(node, letter))

    def _takes(self, node: Node, letter: str) -> bool:
        kind, argument = node
        folded = {letter, letter.lower(), letter.upper()} if self._folds else {letter}
        codes = {ord(one) for one in folded if len(one) == 1}
        if kind is op.LITERAL:
            return argument in codes
        if kind is op.NOT_LITERAL:
            return argument not in codes
        if kind is op.ANY:
            return letter != "\n" or self._dot_takes_all
        negated = argument[0][0] is op.NEGATE
        return any(_within(item, codes, letter) for item in argument) is not negated


class Taken(dict[str, bool]):
    """Answers about letters, each of which is asked for once. Nothing takes the end of a text."""

    def __init__(self, answer: Callable[[str], bool]):
        super().__init__({"": False})
        self._answer = answer

    def __missing__(self, letter: str) -> bool:
        return self.setdefault(letter, self._answer(letter))


def _first(ends: list[int]) -> Then:
    """Ends the search where a match ends."""
    return lambda end: not ends.append(end)  # type: ignore[func-returns-value]


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
_KNOWN = (*_REPEATS, op.AT, op.BRANCH, op.SUBPATTERN, op.ASSERT, op.ASSERT_NOT, op.ATOMIC_GROUP)


# --- texts that make a pattern go back -----------------------------------------------------------


def growth(pattern: re.Pattern[Any], way: str) -> tuple[float, str]:
    """How the steps grow when the worst text that was found becomes twice as long, and that text.

    The choices of a pattern are looked at one by one, since what is linear in each is so in all;
    what is not may be taken by another choice.
    """
    tree = [*parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)]
    whole = Steps(tree, pattern.flags, way)
    worst: tuple[float, str] = (0.0, "")
    if not _repeats_without_end(whole.tree):
        return worst  # as many steps from each letter, however long the text is
    for choice in _choices(tree):
        steps = Steps(choice, pattern.flags, way)
        for pump in filter(_endless(steps), _pumps(steps)):
            if _grown(steps, pump) > max(worst[0], _LINEAR):
                before, word, after = pump
                named = f"{before!r} + {word!r} * n + {after!r}"
                worst = max(worst, (_grown(whole, pump), named))
    return worst


def _endless(steps: Steps) -> Callable[[tuple[str, str, str]], bool]:
    """Whether a repetition without end takes a pump's word; else each takes but a part of it.

    Of what is not in the pattern, as a group that is referred to, everything may be taken.
    """
    repeated = [[*_all(node[1][-1])] for node in _all(steps.tree) if _is_endless(node)]
    known = all(_is_single(node) or node[0] in _KNOWN for node in _all(steps.tree))
    classes = [[steps.taken(node) for node in inner if _is_single(node)] for inner in repeated]

    def endless(pump: tuple[str, str, str]) -> bool:
        return not known or any(
            all(any(taken[letter] for taken in each) for letter in pump[1]) for each in classes
        )

    return endless


def _repeats_without_end(tree: list[Node]) -> bool:
    return any(map(_is_endless, _all(tree)))


def _is_endless(node: Node) -> bool:
    kind, argument = node
    return kind is op.GROUPREF_EXISTS or (kind in _REPEATS and argument[1] > _BOUND)


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
    fewest = max(_SHORTEST // len(word), _FEWEST)
    counts: list[int] = []
    try:
        for words in (fewest, 2 * fewest, 4 * fewest):
            counts.append(steps.of(before + word * words + after))
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
    classes = [steps.taken(node) for node in _all(steps.tree) if _is_single(node)]
    alike: dict[tuple[bool, ...], str] = {}
    for code in (*range(32, 127), 9, 10, 0xE9, 0):
        alike.setdefault(tuple(taken[chr(code)] for taken in classes), chr(code))
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
        found = next(filter(steps.taken(node).__getitem__, letters), "")
        return chr(argument) if kind is op.LITERAL and not found else found
    if kind is op.BRANCH:
        return _sample(steps, letters, argument[1][0])
    if kind is op.SUBPATTERN:
        return _sample(steps, letters, argument[-1])
    if kind is op.ATOMIC_GROUP:
        return _sample(steps, letters, argument)
    return _sample(steps, letters, argument[-1]) * argument[0] if kind in _REPEATS else ""


sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
