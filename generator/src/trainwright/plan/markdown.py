"""The Markdown format, for pull requests: the verdict, errors, a table, and the rest folded away.

A comment has a size limit. What does not fit is dropped, and the comment says so: diffs first,
beginning with the least risky job's, then findings, then rows of the table. Jobs that start, stop
or change what runs always stay: each part has room of its own, each text in it is cut at a
maximum length, and what many jobs contribute is taken from them in turn. So nothing from one job
pushes out another's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.listing import first, listed, plural
from trainwright.plan import headline, words
from trainwright.plan import table as tables
from trainwright.plan.alike import Alike, alike
from trainwright.plan.attention import attention
from trainwright.plan.model import Action, JobChange, ObjectChange, Plan
from trainwright.reports.attention import Concern
from trainwright.reports.comment import (
    ICONS,
    LIMIT,
    by_turns,
    cell,
    code,
    details,
    fenced,
    fitting,
    html,
    left_out,
    prose,
    some,
)
from trainwright.reports.report import by_weight, fairly, help_uri
from trainwright.reports.style import Style
from trainwright.reports.values import change_line

_ICONS = {
    "rejected": "⛔",
    "broken": "❌",
    words.NEVER: "⛔",
    words.CANNOT_START: "⛔",
    words.BACK: "↩️",
    "deleted": "🗑️",
    "left running": "⚠️",
    "left suspended": "⏸️",
    "mixed": "⚠️",
    "ignored": "⚠️",
    "may be refused": "⚠️",
    "cancelled": "🛑",
    "new run": "🔁",
    "starts": "▶️",
    "suspends": "⏸️",
    "resumes": "▶️",
    "retires": "📦",
    "in place": "✏️",
    "adopted": "🤝",
    "goes on": "➡️",
    "outdated": "⏳",
}
_ROOM = 600  # characters kept free for what was left out, and for the address of the page
_ROWS = 10  # of the table that are not folded away
_DIFFS = 3  # that are not folded away together
_NAMES = 14_000  # characters of the names of jobs without a row in sight
_STARTED = 8_000  # characters of what these start that was not there before
_KEPT = 6_000  # characters of the names of jobs that keep an old value
_CAUSES = 3  # in a row of the table
_JOBS = 8  # named in a row of the table, besides the first
_MORE_CAUSES = 20  # in the details of a job
_OBJECTS = 4_000  # characters of objects of one's own
_FORGED = 8_000  # characters of rendered files that no source renders
_SHARED = 8  # values of one shared file
_USES = 8_000  # characters of the table of pools
_USES_TITLE = "Capacity and budgets"
_HEADS = ("job", "what happens", "because", "requests")
_NAME = 200  # characters of a name, a place or a value
_TEXT = 600  # characters of a sentence, a command or the images of a job
_MOST = {"command": (3, _TEXT), "privilege": (12, 80)}  # of one sort in a row: how many, how long
_FLAGS = "/flags"  # of a job spec
_LINK = 500  # characters of a path that is linked


def render(plan: Plan, style: Style) -> str:
    groups = alike(plan.listed)
    head = f"<!-- {style.marker} -->\n### Trainwright: {cell(headline.verdict(plan))}\n"
    head += _attention(plan) + _forged(plan)
    lines = [f"- ⚠️ {prose(line, _TEXT)}\n" for line in words.outside(plan)]
    head += _items(lines, _FORGED, rest="- ⚠️ {}\n")
    notes = "".join(f"\n⚠️ {prose(line)}\n" for line in words.notes(plan))
    foot = _foot(plan, style)
    own, uses = _objects(plan, style), _uses(plan)
    findings = by_weight(plan.findings)
    errors = [it for it in findings if it.severity is Severity.ERROR]
    others = [it for it in findings if it.severity is not Severity.ERROR]
    facts = list(_facts(plan, style))
    room = LIMIT - len(head) - len(notes) - len(foot) - len(own) - len(uses) - _ROOM
    table, more, rows = _table(groups, plan, style, room * 7 // 10 if plan.findings else room)
    room -= len(table) + len(more)
    blocking, hidden = _findings(errors, style, room)
    room -= len(blocking)
    shown, used = fitting(facts, room)
    room -= used
    listed_others, hidden_others = _findings(others, style, room - _ROOM)
    advice = details(_counts(others), listed_others) if listed_others else ""
    room -= len(advice)
    hidden += hidden_others
    kept, used = fitting([_kept(plan)], room)
    room -= used
    # Diffs are formatted one by one, since only the first of thousands fit.
    objects = [it for it in plan.objects if (it.before or it.after) and it.before != it.after]
    diffs = chain((_details(it, style) for it in groups), map(_object_details, objects))
    folded: list[str] = []
    for part in diffs:
        if len(part) > room:
            break
        folded.append(part)
        room -= len(part)
    left = left_out(
        (len(groups) - rows, "row", "rows of the table"),
        (sum(hidden.values()), "finding", f"findings ({_rules(hidden)})"),
        (len(facts) - len(shown), "paragraph", "paragraphs on shared files"),
        (len(groups) + len(objects) - len(folded), "diff", "diffs"),
    )
    texts = (
        head,
        blocking,
        notes,
        table,
        own,
        *shown,
        more,
        *kept,
        uses,
        advice,
        _together(folded),
    )
    return "".join((*texts, left, foot))


def _together(diffs: Sequence[str]) -> str:
    """Return folded diffs, which fold away together if they are many."""
    text = "".join(diffs)
    return details(plural(len(diffs), "diff"), text) if len(diffs) > _DIFFS else text


def _counts(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.severity.value for finding in findings)
    return ", ".join(plural(count, severity) for severity, count in counts.items())


def _findings(findings: Sequence[Finding], style: Style, room: int) -> tuple[str, Counter[str]]:
    """Return the findings that fit, some of each file, and the others counted by rule."""
    lines = [_finding(style, finding) for finding in findings]
    if sum(map(len, lines)) >= room:
        findings = fairly(findings)
        lines = [_finding(style, finding) for finding in findings]
    shown, _ = fitting(["\n", *lines] if lines else [], room)
    left = Counter(finding.rule for finding in findings[max(0, len(shown) - 1) :])
    return "".join(shown), left


def _rules(counts: Counter[str]) -> str:
    return listed([f"{count:,} {rule}" for rule, count in counts.most_common()], 20)


def _uses(plan: Plan) -> str:
    """The table of pools, queues and budgets, folded under what the merge exceeds."""
    used = tables.table(plan)
    rows = [_line([*map(cell, texts)]) for texts in used.texts]
    amounts = "".join(f"\n{prose(line)}\n" for line in words.amounts(plan))
    if not rows:
        return amounts
    exceeded = "; ".join(
        f"{environment.name} {fit.what} {words.fitting(fit)}"
        for environment in plan.changing
        for fit in environment.fits
        if fit.is_worse
    )
    summary = f"⚠️ {_USES_TITLE}: {html(exceeded)}" if exceeded else _USES_TITLE
    shown = some(rows, _USES, "rows", "\n_{}_\n")
    return details(summary, f"{_heading(used.heads)}{shown}{amounts}")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _heading(heads: Sequence[str]) -> str:
    return f"{_line(heads)}{'|---' * len(heads)}|\n"


def _table(groups: Sequence[Alike], plan: Plan, style: Style, room: int) -> tuple[str, str, int]:
    """Return the first rows of the table next to a text about all other jobs, the other rows as
    far as they fit, folded, and how many rows there are.
    """
    rows, size, room = [], 0, room - 2 * _ROOM
    for group in groups:
        rows.append(_row(group, style, plan.currency(group.first.file.environment)))
        size += len(_line(rows[-1]))
        if size > room:
            break
    heads, shown = tables.columns(_HEADS, rows)
    lines = [*map(_line, shown)]
    in_sight: Sequence[str] = lines[:_ROWS]
    if len(in_sight) < len(groups) or size > room:
        in_sight, _ = fitting(in_sight, room - _NAMES - _STARTED)
    others = groups[len(in_sight) :]
    about = _named(others) + _started(others)
    room -= sum(map(len, in_sight)) + len(about)
    folded, _ = fitting(lines[len(in_sight) :], room)
    heading = f"\n{_heading(heads)}"
    seen = f"{heading}{''.join(in_sight)}" if in_sight else ""
    jobs = sum(len(group.changes) for group in others)
    summary = f"{plural(jobs, 'more job')}: what happens, because of which lines"
    more = details(summary, f"{_heading(heads)}{''.join(folded)}") if folded else ""
    return seen + about, more, len(in_sight) + len(folded)


def _named(groups: Sequence[Alike]) -> str:
    """Return, by action, the names of the jobs without a row, as far as they fit."""
    happens: dict[str, list[JobChange]] = {}
    for change in (change for group in groups for change in group.changes):
        happens.setdefault(words.happens(change)[0], []).append(change)
    lines = []
    for action, changes in happens.items():
        turns = by_turns(changes, lambda change: change.file.environment)
        names = [cell(str(change.file), _NAME) for change in turns]
        named = _listed(names, _NAMES // len(happens) - 100)
        lines.append(f"\n**{action}** as well, {len(names):,}: {named}\n")
    return "".join(lines)


def _started(groups: Sequence[Alike]) -> str:
    """Return what the jobs without a row newly start, except for commands."""
    by_kind: dict[str, dict[str, list[Alike]]] = {}
    for group in groups:
        change = group.first
        for what, items in (*words.started(change), ("image", words.new_images(change))):
            for item in items if what != "command" else ():
                by_kind.setdefault(what, {}).setdefault(item, []).append(group)
    return "".join(
        f"\n**{what}s** of these: {_listed(parts, _STARTED // len(by_kind) - 100, f'{what}s')}\n"
        for what, items in by_kind.items()
        if (parts := [f"{cell(item, _NAME)} ({_owners(owners)})" for item, owners in items.items()])
    )


def _owners(groups: Sequence[Alike]) -> str:
    return listed(
        [cell(str(change.file), _NAME) for group in groups for change in group.changes], 1
    )


def _listed(names: Sequence[str], room: int, what: str = "") -> str:
    return some([f"{name}, " for name in names], room, what).removesuffix(", ")


def _kept(plan: Plan) -> str:
    """The jobs without a row whose run keeps an old value, folded, by the fields that differ."""
    rows = {change.file for change in plan.listed}
    fields: dict[str, list[str]] = {}
    for change in plan.changes:
        if change.action is Action.OUTDATED and change.file not in rows:
            paths = dict.fromkeys(cause.path.dotted for cause in change.causes)
            fields.setdefault(", ".join(paths), []).append(cell(str(change.file)))
    if not (count := sum(map(len, fields.values()))):
        return ""
    jobs = "1 job is" if count == 1 else f"{count:,} jobs are"
    lines = [f"- {cell(field)}: {_listed(fields[field], _KEPT // 2)}\n" for field in fields]
    summary = f"{jobs} outdated until the next run"
    return details(summary, some(lines, _KEPT, "fields", "- {}\n"))


def _attention(plan: Plan) -> str:
    """Return a line of what is worse than information, with the first names of each sort."""
    kinds = [
        f"{it.kind} {len(it.items):,}{f' ({cell(names, _NAME)})' if names else ''}"
        for it in attention(plan)
        if it.concern < Concern.INFORMS
        for names in [listed([*dict.fromkeys(filter(None, (one.name for one in it.items)))], 2)]
    ]
    return f"\n**Needs attention**: {' · '.join(kinds)}\n" if kinds else ""


def _forged(plan: Plan) -> str:
    """Return a list of what no source renders, some of each folder; it precedes all that is cut."""
    turns = by_turns(plan.underived, lambda finding: finding.place.file.rpartition("/")[0])
    lines = [f"- ⛔ {cell(words.forged(item), _TEXT)}\n" for item in turns]
    return _items(lines, _FORGED, rest="- ⛔ {}\n")


def _objects(plan: Plan, style: Style) -> str:
    """Return a list of changed additional objects, some of each kind."""
    lines = [
        f"- {cell(change.environment, _NAME)} {prose(_changed(change), _TEXT)} "
        f"({_place(change.place, style)}){_effects(change)}\n"
        for change in by_turns(plan.objects, lambda change: change.object.partition("/")[0])
        if change.action != "moved"
    ]
    lines += [f"- {prose(line, _TEXT)}\n" for line in words.moved_objects(plan)]
    items = _items(lines, _OBJECTS, "objects")
    return f"\nAdditional objects:\n{items}" if items else ""


def _changed(change: ObjectChange) -> str:
    return words.brief(words.changed_object(change))


def _effects(change: ObjectChange) -> str:
    return "".join(f"<br>{prose(effect, _TEXT)}" for effect in change.effects)


def _items(lines: Sequence[str], room: int, what: str = "", rest: str = "- {}\n") -> str:
    """Items of a list as far as there is room, and how many more there are."""
    return f"\n{some(lines, room, what, rest)}" if lines else ""


def _row(group: Alike, style: Style, currency: str) -> tuple[str, ...]:
    change = group.first
    because = "<br>".join(_causes(change.causes, _CAUSES, style))
    what, why = words.happens(change)
    why = words.brief(why)
    # What is too long is cut as a whole.
    lines = words.clauses(why) if len(why) <= _TEXT else [why]
    happens = [f"**{what}**: {'<br>'.join(prose(line, _TEXT) for line in lines)}"]
    if same := words.same(listed(group.others, _JOBS), ()):
        by = ", by the commands with the diff" if group.commands else ""
        happens.append(prose(f"{same}{by}", _TEXT))
    asks = cell(words.signed(group.asked, currency))
    job = f"{_ICONS[what]} {_owners([group])}"
    return (job, "<br>".join((*happens, *_runs(change))), because, asks)


def _runs(change: JobChange) -> Iterator[str]:
    """Yield what the new run starts that the previous one did not, up to a limit per category."""
    image, new = words.image(change), words.new_images(change)
    if new and len(image) > _TEXT:
        yield from _some("image", new)
    elif image:
        yield cell(f"image {image}", _TEXT)
    told = len(change.causes) <= _CAUSES and all(it.path.parent == _FLAGS for it in change.causes)
    for what, items in words.started(change):
        if what != "command" or not told or not change.causes:  # they are told as what changed
            yield from _some(what, items)


def _some(what: str, items: Sequence[str]) -> Iterator[str]:
    most, size = _MOST.get(what, (6, _NAME))
    return first(items, most, lambda item: cell(f"{what} {item}", size), f"{what}s")


def _causes(causes: Sequence[ValueChange], most: int, style: Style) -> Iterator[str]:
    return first(causes, most, lambda cause: _link(cause.place, style, change_line(cause)))


def _link(place: Location, style: Style, text: str, most: int = _NAME) -> str:
    """Return a link to an authored line, or plain text if the repository's address is not known."""
    path = _path(place.file)
    if not style.link or len(path) > _LINK:
        return f"{cell(text, most)} ({cell(str(place), _NAME)})"
    return f"[{cell(text, most)}]({style.link}/{path}#L{place.line})"


def _place(place: Location, style: Style) -> str:
    return _link(place, style, str(place)) if style.link else cell(str(place))


def _path(file: str) -> str:
    from urllib.parse import quote

    return quote(file)


def _finding(style: Style, finding: Finding) -> str:
    icon = ICONS[finding.severity.value]
    rule = f"[{finding.rule}]({help_uri(finding.rule)})"
    where = _place(finding.place, style)
    message, remedy = prose(finding.message, _TEXT), prose(finding.remedy, _TEXT)
    return f"- {icon} {rule} {where}: {message}. {remedy}\n"


def _facts(plan: Plan, style: Style) -> Iterator[str]:
    for shared in plan.shared_files:
        causes = "".join(f"- {line}\n" for line in _causes(shared.causes, _SHARED, style))
        kept = words.keeping(plan, shared)
        kept = f" {cell(kept, _TEXT)}." if kept else ""
        yield f"\n`{code(shared.file)}` {words.reach(shared)}.{kept}\n\n{causes}"


def _details(group: Alike, style: Style) -> str:
    change = group.first
    summary = f"{html(group.name)}: {words.happens(change)[0]}"
    others = _listed([*map(cell, group.others)], _KEPT)
    same = f"The same for {others}.\n\n" if others else ""
    every = dict.fromkeys((*words.deletions(words.happens(change)[1]), *group.commands))
    commands = [f"- `{code(command, _KEPT)}`\n" for command in every]
    same += some(commands, _KEPT + _TEXT, "commands", "- {}\n")
    causes = "".join(f"- {line}\n" for line in _causes(change.causes, _MORE_CAUSES, style))
    return details(summary, f"{same}{causes}\n{fenced(words.diff(change))}")


def _object_details(change: ObjectChange) -> str:
    what = "leaves git" if change.until else f"is {change.action}"
    summary = f"{html(change.environment)}: {html(change.object)} {what}"
    commands = words.deletions(words.changed_object(change))
    shown = "".join(f"`{code(command, _KEPT)}`\n\n" for command in commands)
    return details(summary, f"{shown}{fenced(words.object_diff(change))}")


def _foot(plan: Plan, style: Style) -> str:
    head = f"`{plan.head[:12]}`" if plan.head else "the working tree"
    behind = f", which has {plural(plan.behind, 'more commit')}" if plan.behind else ""
    bound = f"\n_{it}._\n" if (it := words.bound(plan)) else ""
    return (
        f"{bound}\n_Base_ `{plan.base[:12]}` _of_ `{code(style.against)}`{behind}_, head_ {head}. "
        f"_Reproduce with_ `{code(style.command)}`\n"
    )
