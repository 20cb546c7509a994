"""For pull requests: the verdict, a table, findings, and diffs that fold away.

A comment holds so much and no more. What does not fit is dropped and said to be: diffs first, the
least risky job's before all, then findings, then rows of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.datatypes.model import Finding, Location
from trainwright.findings.visibility import visible
from trainwright.plan import headline, words
from trainwright.plan import table as uses
from trainwright.plan.alike import Alike, alike
from trainwright.plan.format import Format, Style
from trainwright.plan.model import Action, JobChange, Plan
from trainwright.reports.comment import ICONS, LIMIT, cell, code, fenced, fitting, html
from trainwright.reports.report import by_weight, help_uri

_ICONS = {
    "rejected": "⛔",
    "broken": "❌",
    "deleted": "🗑️",
    "left running": "⚠️",
    "mixed": "⚠️",
    "ignored": "⚠️",
    "cancelled": "🛑",
    "new run": "🔁",
    "starts": "▶️",
    "suspends": "⏸️",
    "resumes": "▶️",
    "retires": "📦",
    "in place": "✏️",
    "adopted": "🤝",
    "held": "⏳",
}
_ROOM = 600  # characters kept free for what was left out, and for the address of the page
_DIFF = 10_000  # characters of one job's diff
_NAMES = 12_000  # characters of the names of jobs without a row
_KEPT = 6_000  # characters of the names of jobs that keep an old value
_CAUSES = 3  # in a row of the table; the details have all
_OBJECTS = 20  # objects of one's own that are listed
_FORGED = 50  # rendered files that no source renders, of a few hundred characters each
_SHARED = 8  # values of one shared file
_USES = 8_000  # characters of the table of pools
_HEADS = ("job", "what happens", "because", "requests", "runs")


def render(review: Plan, style: Style) -> str:
    groups = alike(review.listed)
    head = f"<!-- {style.marker} -->\n### Trainwright: {cell(headline.verdict(review))}\n"
    head += _forged(review)
    head += "".join(f"\n⚠️ {cell(line)}\n" for line in words.unrendered(review))
    foot = _foot(review, style)
    head += _uses(review)
    top, rows = _rows(groups, review, style)
    findings = [_finding(finding, style) for finding in by_weight(review.findings)]
    facts = list(_facts(review, style))
    room = LIMIT - len(head) - len(foot) - _ROOM
    table, used = _table(top, rows, room * 7 // 10 if findings else room)
    cut = _named(groups[max(0, len(table) - 1) :])
    room -= used + len(cut)
    listed, used = fitting(["\n", *findings] if findings else [], room)
    room -= used
    shown, used = fitting(facts, room)
    room -= used
    kept, used = fitting([_kept(review)], room)
    room -= used
    # Diffs are made one by one: of thousands only the first ones fit.
    folded: list[str] = []
    for group in groups:
        part = _details(group, style)
        if len(part) > room:
            break
        folded.append(part)
        room -= len(part)
    left = _left(
        (len(groups) - max(0, len(table) - 1), "row", "rows of the table"),
        (len(findings) - max(0, len(listed) - 1), "finding", "findings"),
        (len(facts) - len(shown), "paragraph", "paragraphs on shared files"),
        (len(groups) - len(folded), "diff", "diffs"),
    )
    return "".join((head, *table, cut, *listed, *shown, *kept, *folded, left, foot))


def _uses(review: Plan) -> str:
    """The table of pools, queues and budgets."""
    used = uses.table(review)
    rows = [
        _line(tuple(f"⚠️ {text}" if short and not index else text for index, text in enumerate(row)))
        for row, short in zip((tuple(map(cell, row)) for row in used.rows), used.short, strict=True)
    ]
    shown, _ = fitting(rows, _USES)
    more = len(rows) - len(shown)
    rest = f"\n_and {more:,} more rows_\n" if more else ""
    return "".join(("\n", _heading(used.heads), *shown, rest)) if rows else ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _heading(heads: Sequence[str]) -> str:
    return f"{_line(heads)}{'|---' * len(heads)}|\n"


def _table(top: str, rows: Sequence[str], room: int) -> tuple[Sequence[str], int]:
    """The rows that fit, with room for the names of those that do not."""
    table, used = fitting([top, *rows] if rows else [], room)
    return (
        (table, used)
        if not rows or len(table) > len(rows)
        else fitting([top, *rows], room - _NAMES)
    )


def _named(groups: Sequence[Alike]) -> str:
    """What happens to the jobs without a row, by their names as far as there is room."""
    happens: dict[str, list[str]] = {}
    for change in (change for group in groups for change in group.changes):
        happens.setdefault(change.action.value, []).append(cell(str(change.file)))
    lines = []
    for action, names in happens.items():
        listed = _listed(names, _NAMES // len(happens) - 100)
        lines.append(f"\n**{action}** as well, {len(names):,}: {listed}\n")
    return "".join(lines)


def _listed(names: Sequence[str], room: int) -> str:
    shown, _ = fitting([f"{name}, " for name in names], room)
    more = len(names) - len(shown)
    return "".join(shown).removesuffix(", ") + (f" and {more:,} more" if more else "")


def _kept(review: Plan) -> str:
    """The jobs without a row whose run keeps an old value, folded, by the fields that differ."""
    rows = {change.file for change in review.listed}
    fields: dict[str, list[str]] = {}
    for change in review.changes:
        if change.action is Action.HELD and change.file not in rows:
            paths = dict.fromkeys(cause.pointer.dotted for cause in change.causes)
            fields.setdefault(", ".join(paths), []).append(cell(str(change.file)))
    if not (count := sum(map(len, fields.values()))):
        return ""
    jobs = "1 job keeps its" if count == 1 else f"{count:,} jobs keep their"
    lines = [f"- {cell(field)}: {_listed(fields[field], _KEPT // 2)}\n" for field in fields]
    listed, _ = fitting(lines, _KEPT)
    more = f"- and {len(lines) - len(listed):,} more fields\n" if len(listed) < len(lines) else ""
    summary = f"{jobs} old values until the next run"
    return f"\n<details><summary>{summary}</summary>\n\n{''.join(listed)}{more}\n</details>\n"


def _forged(review: Plan) -> str:
    """What no source renders, above all that may be cut."""
    lines = [f"- ⛔ {cell(words.forged(one))}\n" for one in review.underived[:_FORGED]]
    more = len(review.underived) - _FORGED
    lines += [f"- ⛔ and {more:,} more\n"] if more > 0 else []
    return "".join(("\n", *lines)) if lines else ""


def _left(*dropped: tuple[int, str, str]) -> str:
    parts = [
        f"{count:,} {one if count == 1 else many}" for count, one, many in dropped if count > 0
    ]
    return f"\n_Left out to fit a comment: {', '.join(parts)}._\n" if parts else ""


def _rows(groups: Sequence[Alike], review: Plan, style: Style) -> tuple[str, Sequence[str]]:
    """The head of the table of jobs, and its rows, without columns in which nothing is."""
    found = [_row(it, style, review.currency(it.first.file.environment)) for it in groups]
    heads, rows = uses.columns(_HEADS, found)
    return f"\n{_heading(heads)}", [_line(row) for row in rows]


def _row(group: Alike, style: Style, currency: str) -> tuple[str, ...]:
    change = group.first
    because = "<br>".join(
        f"{_link(cause.place, style, words.cause(cause))}" for cause in change.causes[:_CAUSES]
    )
    more = len(change.causes) - _CAUSES
    because += f"<br>and {more} more" if more > 0 else ""
    happens = f"**{change.action.value}**: {cell(change.why)}"
    asks = cell(words.signed(group.asked, currency))
    job = f"{_ICONS[change.action.value]} {cell(group.name)}"
    return (job, happens, because, asks, _runs(change))


def _runs(change: JobChange) -> str:
    """What a run starts that was not there before."""
    return "<br>".join(map(cell, filter(None, (words.image(change), *words.runs(change)))))


def _link(place: Location, style: Style, text: str) -> str:
    """Text that leads to an authored line, where the address of the repository is known."""
    if not style.link:
        return f"{cell(text)} ({cell(str(place))})"
    return f"[{cell(text)}]({style.link}/{_path(place.file)}#L{place.line})"


def _path(file: str) -> str:
    from urllib.parse import quote

    return quote(file)


def _finding(finding: Finding, style: Style) -> str:
    icon = ICONS[finding.severity.value]
    rule = f"[{finding.rule}]({help_uri(finding.rule)})"
    where = (
        _link(finding.place, style, str(finding.place)) if style.link else cell(str(finding.place))
    )
    return f"- {icon} {rule} {where}: {cell(finding.message)}. {cell(finding.remedy)}\n"


def _facts(review: Plan, style: Style) -> Iterator[str]:
    if review.objects:
        listed = (
            f"- {_link(one.place, style, f'{one.object} is {one.action}')} in "
            f"{cell(one.environment)}\n"
            for one in review.objects[:_OBJECTS]
        )
        more = len(review.objects) - _OBJECTS
        rest = f"- and {more} more\n" if more > 0 else ""
        yield f"\nObjects of one's own:\n\n{''.join(listed)}{rest}"
    for blast in review.blast:
        causes = "".join(
            f"- {_link(c.place, style, words.cause(c))}\n" for c in blast.causes[:_SHARED]
        )
        more = len(blast.causes) - _SHARED
        causes += f"- and {more} more\n" if more > 0 else ""
        yield f"\n`{code(blast.file)}` {words.reach(blast)}.\n\n{causes}"


def _details(group: Alike, style: Style) -> str:
    change = group.first
    summary = f"{html(group.name)}: {change.action.value}"
    others = _listed([*map(cell, group.others)], _KEPT)
    same = f"The same for {others}.\n\n" if others else ""
    causes = "".join(f"- {_link(c.place, style, words.cause(c))}\n" for c in change.causes)
    inside = f"{same}{causes}\n{_fenced(change)}"
    return f"\n<details><summary>{summary}</summary>\n\n{inside}\n</details>\n"


def _fenced(change: JobChange) -> str:
    """The diff of the manifests, as far as there is room; nothing where they are the same."""
    lines, size = [], 0
    for line in words.diff(change):
        shown = visible(line)
        size += len(shown) + 1
        if size > _DIFF:
            lines.append("... and more: run the command below")
            break
        lines.append(shown)
    return fenced("\n".join(lines)) if lines else ""


def _foot(review: Plan, style: Style) -> str:
    head = f"`{review.head[:12]}`" if review.head else "the working tree"
    behind = f", which has {review.behind} commits more" if review.behind else ""
    return (
        f"\n_Base_ `{review.base[:12]}` _of_ `{code(style.against)}`{behind}_, head_ {head}. "
        f"_Reproduce with_ `{code(style.command)}`\n"
    )


FORMAT = Format("markdown", "for pull requests: verdict, table, findings, folded diffs", render)
