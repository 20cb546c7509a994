"""What was probably meant where YAML cannot be read: libyaml only reports what it expected."""

from __future__ import annotations

import re
from collections.abc import Callable

from trainwright.datatypes.frozen import dataclass
from trainwright.findings.credentials import named, suspicious

Place = tuple[int, int]  # line and column from 0

_NO_SPACE = re.compile(r"\s*(?:- )?([A-Za-z_][\w./-]*):(?![\s/])(\S.*)")
_KEY_AND_VALUE = re.compile(r"\s*(?:- )?[^\s#'\"{\[][^#]*?:\s+[^\s#|>&{\[].*", re.DOTALL)
_NO_COLON = re.compile(r"\s*(?:- )?([A-Za-z_][\w./-]*)(?:(?:\s*=\s*|\s+)(\S.*))?")
_NO_SPACE_AFTER_DASH = re.compile(r"\s*-([A-Za-z0-9_\"'].*)")
# A value with `${{ … }}` where braces are YAML's: inside of { } or [ ], without quotes.
_IN_FLOW = re.compile(
    r"(?<![^\s,{}\[\]'\"#])"
    r"(?:([\w.+/-]+): +)?((?:[^\s,{}\[\]'\":#]|:(?=[^\s]))*\$\{\{[^{}'\"]*\}\}[^\s,{}\[\]'\"]*)"
)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_CONFLICT = re.compile(r"<{7}|={7}|>{7}")
_CLOSED_BY = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is wrong in a YAML text, where, and what to write instead."""

    message: str
    at: Place
    remedy: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Where libyaml stopped and why, what it was reading then, and where that began.

    Line numbers include `above`, the number of lines that the file has before `lines`.
    """

    lines: tuple[str, ...]
    above: int
    problem: str
    at: Place
    context: str
    since: Place | None

    def line(self, number: int) -> str:
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    @property
    def before(self) -> int:
        """The number of the last line with text above the one where libyaml stopped."""
        number = self.at[0] - 1
        while number >= 0 and not self.line(number).split("#")[0].strip():
            number -= 1
        return number

    @property
    def starts_line(self) -> bool:
        """Whether only spaces and dashes stand before the place."""
        return not self.line(self.at[0])[: self.at[1]].strip(" -")

    def name(self, place: Place) -> str:
        return f"line {self.above + place[0] + 1}, column {place[1] + 1}"


def explain(fault: Fault) -> Explanation | None:
    """Return the first explanation that fits, or None if libyaml's own message has to do."""
    for read in _READINGS:
        if explanation := read(fault):
            return explanation
    return None


def missing_space(text: str) -> str:
    """Return `pool: h100` for a word that lacks the space after its colon, else ""."""
    match = _NO_SPACE.fullmatch(text)
    return shown_pair(match[1], match[2]) if match else ""


def missing_colon(text: str) -> str:
    """Return `lr: 0.1` for words that lack the colon between them, else ""."""
    match = _NO_COLON.fullmatch(text)
    return shown_pair(match[1], match[2]) if match and match[2] else ""


def shown_pair(key: str, value: str, sign: str = ": ") -> str:
    """Return a key and its value as they should be written, without what may be confidential."""
    secret = value and (named(key, value) or suspicious(value))
    return f"{key}{sign}{'…' if secret else value}"


def _conflict(fault: Fault) -> Explanation | None:
    around = (fault.since or fault.at, fault.at)
    for number in sorted({place[0] for place in around}):
        if _CONFLICT.match(fault.line(number)):
            message = "a merge conflict was left here"
            return Explanation(message, (number, 0), "Keep one side and delete the marker lines.")
    return None


def _tab(fault: Fault) -> Explanation | None:
    line = fault.line(fault.at[0])
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" not in indent and line[fault.at[1] : fault.at[1] + 1] != "\t":
        return None
    remedy = "YAML is indented with spaces, never tabs."
    return Explanation("a tab is here, where YAML expects spaces", fault.at, remedy)


def _no_break_space(fault: Fault) -> Explanation | None:
    for number in sorted({fault.before, fault.at[0], (fault.since or fault.at)[0]}):
        column = fault.line(number).find("\u00a0")
        if column >= 0:
            message = "a no-break space is here, where YAML expects a space"
            return Explanation(message, (number, column), "Write a space in its place.")
    return None


def _space(fault: Fault) -> Explanation | None:
    """Explain a missing space: `pool:h100` is one word, and the error shows on a later line."""
    if not re.search("mapping values|expected ':'|expected key|document start", fault.problem):
        return None
    numbers = [fault.before, fault.at[0]] if fault.since is None else [fault.since[0], fault.before]
    for number in numbers:
        line = fault.line(number).split(" #")[0].rstrip()
        if match := _NO_SPACE.fullmatch(line):
            written = shown_pair(match[1], match[2], ":")
            return Explanation(
                f'"{written}" has no space behind its colon',
                (number, match.end(1)),
                f"Write `{shown_pair(match[1], match[2])}`.",
            )
    return None


def _dash(fault: Fault) -> Explanation | None:
    number = fault.since[0] if fault.since else fault.at[0]
    line = fault.line(number)
    match = _NO_SPACE_AFTER_DASH.fullmatch(line)
    if "expected ':'" not in fault.problem or not match:
        return None
    word = shown_pair("", match[1], "")
    message = f'"-{word}" has no space behind its dash'
    at = (number, len(line) - len(line.lstrip()))
    return Explanation(message, at, f"Write `- {word}`.")


def _colon(fault: Fault) -> Explanation | None:
    if "expected ':'" not in fault.problem or fault.since is None:
        return None
    line = fault.line(fault.since[0])
    match = _NO_COLON.fullmatch(line.split(" #")[0].rstrip())
    if not match:
        return None
    key, value = match[1], match[2] or ""
    sign = "=" if value and "=" in line.partition(value)[0] else " "
    message = f'"{shown_pair(key, value, sign).rstrip()}" has no colon behind its key'
    return Explanation(message, fault.since, f"Write `{shown_pair(key, value).rstrip()}`.")


def _reference(fault: Fault) -> Explanation | None:
    """Explain `${{ … }}` without quotes inside of a flow mapping or a flow list."""
    if "flow" not in fault.context or fault.since is None:
        return None
    for number in range(fault.since[0], fault.at[0] + 1):
        line = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), fault.line(number))
        for match in _IN_FLOW.finditer(line):
            if number == fault.at[0] and fault.at[1] < match.start():
                break
            key, value = match[1] or "", f'"{match[2]}"'
            written = shown_pair(key, value) if key else value
            message = f"{match[2]} is in braces or brackets without quotes, and its own are YAML's"
            return Explanation(message, (number, match.start(2)), f"Write `{written}`.")
    return None


def _open_quote(fault: Fault) -> Explanation | None:
    """Explain a quote inside of brackets that is closed by one of a later line."""
    if "flow" not in fault.context or fault.since is None or fault.at[0] <= fault.since[0]:
        return None
    number, column = fault.since
    line = fault.line(number)[column:].replace('\\"', "__")
    if line.count('"') % 2 == 0 or "'" in line:
        return None
    at = (number, column + line.rindex('"'))
    message = 'the quote " is not closed on its line'
    return Explanation(message, at, 'Write " where the text ends.')


def _comment(fault: Fault) -> Explanation | None:
    """Explain a bracket that is never closed as a comment has what closes it."""
    if "flow" not in fault.context or fault.since is None:
        return None
    first, last = fault.since[0], min(fault.at[0], len(fault.lines) - 1)
    for number in range(first, last + 1):
        line = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), fault.line(number))
        start = line.find(" #", fault.since[1] if number == first else 0)
        comment = line[start:] if start >= 0 else ""
        if sum(map(comment.count, "]}")) > sum(map(comment.count, "[{")):
            message = "a # behind a space begins a comment, which has the rest of the line"
            remedy = "Put the value that has it into quotes."
            return Explanation(message, (number, start + 1), remedy)
    return None


def _bracket(fault: Fault) -> Explanation | None:
    """Explain a bracket that is never closed, at the place where it was opened."""
    if "flow" not in fault.context or fault.since is None:
        return None
    line, column = fault.since
    opened = fault.line(line)[column : column + 1]
    if opened not in _CLOSED_BY:
        return None
    closed = _CLOSED_BY[opened]
    character = fault.line(fault.at[0])[fault.at[1] : fault.at[1] + 1]
    if character in (":", "{") and fault.at[0] == line:
        message = f'the value has a "{character}" in it, which YAML reads as its own'
        remedy = "Put the value into quotes, or write the comma that is missing."
        return Explanation(message, fault.at, remedy)
    stop = f'"{character}"' if character in ("]", "}") else fault.name(fault.at)
    message = f'"{opened}" is not closed before {stop}; {fault.problem}'
    return Explanation(message, fault.since, f"Write `{closed}` where it ends, or a missing comma.")


def _quote(fault: Fault) -> Explanation | None:
    """Explain a quote that is never closed, or closed by one meant to open the next string."""
    if "quoted scalar" in fault.context and "end of stream" in fault.problem and fault.since:
        quote = fault.line(fault.since[0])[fault.since[1] : fault.since[1] + 1]
        return Explanation(
            f"the quote {quote} is not closed", fault.since, f"Write {quote} where the text ends."
        )
    if "expected key" not in fault.problem or fault.starts_line:
        return None
    left = fault.line(fault.at[0])[: fault.at[1]].rstrip()
    quote = left[-1:]
    if quote not in ("'", '"'):
        return None
    for number in range(fault.at[0] - 1, max(fault.at[0] - 20, -1), -1):
        if fault.line(number).count(quote) % 2 and left.count(quote) % 2:
            at = (number, fault.line(number).rindex(quote))
            message = f"the quote {quote} is not closed on its line, but by the one of "
            return Explanation(
                f"{message}{fault.name((fault.at[0], len(left) - 1))}",
                at,
                f"Write {quote} where the text ends.",
            )
    message = f"text follows a string that {quote} has closed"
    remedy = f"Quote the whole value, and write {quote} inside it twice."
    if quote == '"':
        remedy = 'Quote the whole value, and write " inside it as \\".'
    return Explanation(message, fault.at, remedy)


def _surplus(fault: Fault) -> Explanation | None:
    character = fault.line(fault.at[0])[fault.at[1] : fault.at[1] + 1]
    if "expected key" not in fault.problem or character not in ("]", "}"):
        return None
    return Explanation(f'"{character}" closes nothing that is open', fault.at, "Remove it.")


def _indent(fault: Fault) -> Explanation | None:
    line = fault.line(fault.at[0])
    own = len(line) - len(line.lstrip(" "))
    above = fault.line(fault.before)
    other = len(above) - len(above.lstrip(" "))
    at = (fault.at[0], own)
    if "mapping values" in fault.problem:
        if line[: fault.at[1]].count(": ") or own <= other or not _KEY_AND_VALUE.fullmatch(above):
            return None
        message = (
            f"this line is indented by {own} spaces, below a line of {other} that has its value"
        )
        remedy = f"Indent it by {other}, or move the value of line {_number(fault)} out of the way."
        return Explanation(message, at, remedy)
    if not re.search("expected key|expected '-'", fault.problem) or not fault.starts_line:
        return None
    if "expected '-'" in fault.problem and fault.since and own == fault.since[1]:
        message = "a key is here, among the items of the list that begins on "
        remedy = "Begin the item with `- `, or indent the key as the key of the list is."
        return Explanation(f"{message}line {fault.above + fault.since[0] + 1}", at, remedy)
    levels = sorted(_levels(fault, own))
    if own in levels:
        return _item(fault, at)
    message = f"this line is indented by {own} spaces, which no line above it is"
    return Explanation(message, at, f"Indent it by {' or '.join(map(str, levels)) or '0'}.")


def _item(fault: Fault, at: Place) -> Explanation | None:
    """Explain an item of a list where a key of a mapping is expected; None if there is none."""
    if not re.match("- |-$", fault.line(at[0])[at[1] :]) or fault.since is None:
        return None
    message = "an item of a list is here, among the keys of the mapping that begins on "
    remedy = "Move it below the key of its list, or remove the dash."
    return Explanation(f"{message}line {fault.above + fault.since[0] + 1}", at, remedy)


def _number(fault: Fault) -> int:
    return fault.above + fault.before + 1


def _levels(fault: Fault, own: int) -> set[int]:
    """Return the indentations of the lines above that the line can belong to."""
    levels: set[int] = set()
    least: int | None = None
    for number in range(fault.at[0] - 1, -1, -1):
        line = fault.line(number)
        indent = len(line) - len(line.lstrip(" "))
        if line.strip() and not line.lstrip().startswith("#") and (least is None or indent < least):
            levels.add(indent)
            least = indent
            if indent < own:
                break
    return levels


def _second_colon(fault: Fault) -> Explanation | None:
    line = fault.line(fault.at[0])
    key, colon, value = line.partition(": ")
    if "mapping values" not in fault.problem or not colon or len(key) >= fault.at[1]:
        return None
    message = f"the value has a colon and a space in it; {fault.problem}"
    name, text = key.strip().removeprefix("- "), value.strip().replace("'", "''")
    written = shown_pair(name, text).removeprefix(f"{name}: ")
    return Explanation(message, fault.at, f"Quote it: `{name}: '{written}'`.")


def _colon_above(fault: Fault) -> Explanation | None:
    """Explain a missing colon that shows at the key of the next line."""
    above = fault.line(fault.before).split(" #")[0].rstrip()
    indent = len(above) - len(above.lstrip())
    same = indent == len(line := fault.line(fault.at[0])) - len(line.lstrip())
    if "mapping values" not in fault.problem or not same or not (meant := missing_colon(above)):
        return None
    sign = " = " if "=" in above.partition(": ")[0] else " "
    written = meant.replace(": ", sign, 1)
    message = f'"{written}" has no colon behind its key'
    return Explanation(message, (fault.before, indent), f"Write `{meant}`.")


def _indicator(fault: Fault) -> Explanation | None:
    """Explain a character that YAML reserves, or with which an anchor, alias or tag begins."""
    at = fault.at
    if fault.since and re.search("scanning an? (?:alias|anchor|tag)", fault.context):
        at = fault.since
    elif "cannot start any token" not in fault.problem:
        return None
    character = fault.line(at[0])[at[1] : at[1] + 1]
    if not character.strip():
        return None
    message = f"a value cannot begin with {character} unless it is quoted"
    return Explanation(message, at, "Put the value into quotes.")


def _comma(fault: Fault) -> Explanation | None:
    character = fault.line(fault.at[0])[fault.at[1] : fault.at[1] + 1]
    if "expected node content" not in fault.problem or character != ",":
        return None
    return Explanation("there is no value between two commas", fault.at, "Remove one of them.")


def _escape(fault: Fault) -> Explanation | None:
    if "unknown escape" not in fault.problem:
        return None
    message = f"a backslash between double quotes begins an escape; {fault.problem}"
    remedy = "Use single quotes, between which a backslash is itself, or write two."
    return Explanation(message, fault.at, remedy)


_READINGS: tuple[Callable[[Fault], Explanation | None], ...] = (
    _conflict,
    _tab,
    _no_break_space,
    _space,
    _dash,
    _reference,
    _open_quote,
    _comment,
    _bracket,
    _quote,
    _surplus,
    _indent,
    _second_colon,
    _colon_above,
    _colon,
    _indicator,
    _comma,
    _escape,
)
