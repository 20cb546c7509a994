"""`explain` and `list`: what there is, and why."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    OK,
    Context,
    answer_format,
    complete,
    completed_root,
    examples,
    no_cache,
    selections,
)
from trainwright.cli.suggestions import Choice

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from trainwright.files.tree import Tree


def _complete_path(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The paths of the job that is named before."""
    from click.shell_completion import CompletionItem

    from trainwright.datatypes.errors import TrainwrightError
    from trainwright.files.tree import Folder
    from trainwright.specs import explain, inventory

    try:
        spec = inventory.one_job(Folder(completed_root(context)), str(context.params.get("job")))
    except TrainwrightError:
        return []
    paths = sorted(set(explain.paths(spec)))
    return [CompletionItem(path) for path in paths if path.startswith(incomplete)]


@click.command(
    epilog=examples(
        "explain prod/llm resources.gpu nodes", "explain TW718 TW754", "explain job checkpoint"
    )
)
@click.argument("job", metavar="ENV/JOB|RULE|job|environment|defaults", shell_complete=complete)
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=_complete_path)
@answer_format
@click.pass_obj
def explain(context: Context, job: str, paths: tuple[str, ...], output: str) -> None:
    """Show a job's effective spec, a rule, or the fields that a file may have.

    Of a job, or of each PATH of it, it shows which file set each value.

    PATH is dotted: image.tag, volumes.data.claim. A key that has dots itself is quoted, as
    'labels["example.com/team"]', or written plainly where that can mean nothing else.

    Of a RULE, such as TW718, or of several, it shows what must hold, what happens otherwise, the
    remedy, when to waive it, and samples that fail and pass. Of `job`, `environment` or `defaults`
    it shows the fields that such a file may have, or those below each PATH: `explain job
    checkpoint`.
    """
    from trainwright.reports import style, terminal

    if "/" not in job and (shown := _rules(job, paths, output)):
        click.echo(shown, nl=False)
        return
    if shown := _fields(job, paths or ("",), output):
        click.echo(shown, nl=False)
        return
    if "/" not in job and not paths:
        _check_is_no_field(job)
    explained = (context.repository.explain(job, path) for path in dict.fromkeys(paths or ("",)))
    by_path = {it.pointer: it for it in chain.from_iterable(explained)}
    explanation = tuple(by_path.values())
    if output == "json":
        items = terminal.explanation_items(explanation)
        click.echo(style.listing("Explanation", items), nl=False)
    else:
        click.echo(terminal.explanation(explanation), nl=False)


def _rules(first: str, others: tuple[str, ...], output: str) -> str:
    """What rules are about, or nothing if the first word is not one."""
    from trainwright.reports import rule_text, style

    rules = {word: rule_text.named(word) for word in (first, *others)}
    if rules[first] is None:
        return ""
    for word in (word for word, rule in rules.items() if rule is None):
        raise click.UsageError(f"{first} is a rule, which has no paths: leave out {word!r}")
    found = [rule for rule in rules.values() if rule]
    if output == "json":
        return style.listing("Rule", [rule_text.item(rule) for rule in found])
    return "\n".join(map(rule_text.text, found))


def _fields(kind: str, paths: tuple[str, ...], output: str) -> str:
    """The fields of a kind of file, or nothing for a word that is not one."""
    from trainwright.reports import field_text, style

    if kind not in field_text.KINDS:
        return ""
    if output == "json":
        items = [item for path in paths for item in field_text.items(kind, path)]
        about = field_text.about(kind, paths[0] if len(paths) == 1 else "")
        return style.listing("Fields", items, **about)
    return "\n".join(field_text.text(kind, path) for path in paths)


def _check_is_no_field(word: str) -> None:
    """Raise SelectionError, with the command, for a word that is a field of a file."""
    from trainwright.datatypes.errors import SelectionError
    from trainwright.reports import field_text

    for kind in field_text.KINDS:
        if field_text.has(kind, word):
            command = f"`trainwright explain {kind} {word}`"
            raise SelectionError(f'"{word}" is a field of {kind}, and not a job: see {command}')


_OF_ENVIRONMENTS = ("jobs", "own-objects")
LISTS = (
    "jobs",
    "environments",
    "own-objects",
    "targets",
    "fabrics",
    "rules",
    "formats",
    "engines",
)


@click.command(name="list", epilog=examples("list jobs prod", "list rules", "list jobs -o json"))
@click.argument("what", type=Choice(LISTS), default="jobs", metavar="[WHAT]")
@selections
@answer_format
@no_cache
@click.pass_obj
def list_(
    context: Context,
    /,
    *,
    what: str,
    selections: tuple[str, ...],
    output: str,
    no_cache: bool,
) -> None:
    """List jobs, environments, own-objects, targets, fabrics, rules, formats or engines.

    Own objects are those below environments/ENV/objects. They and jobs may be those of some
    environments alone. A run that another has replaced, and that its GitOps engine has not deleted,
    is named until it is retired or another one begins: only `trainwright status` knows whether it
    still trains.
    """
    from trainwright.cli.memory import Memory, Printed
    from trainwright.files.tree import Folder

    if selections and what not in _OF_ENVIRONMENTS:
        raise click.UsageError(f"`list {what}` takes no ENV; only jobs and own-objects are of one")
    if what != "jobs" or no_cache:
        everything = _listed(context, what, selections, output, lambda: Folder(context.root))
        click.echo(everything, nl=False)
        return
    settings = {"output": output, "color": str(context.color)}
    memory = Memory(context.root, "list", selections, settings)
    printed = memory.recall() or memory.print(
        lambda tree: Printed(_listed(context, what, selections, output, lambda: tree), OK)
    )
    click.echo(printed.text, nl=False)


def _listed(
    context: Context,
    what: str,
    selections: tuple[str, ...],
    output: str,
    files: Callable[[], Tree],
) -> str:
    from trainwright.lifecycle import listing
    from trainwright.reports import style, terminal

    headers, rows = listing.LISTINGS[what](files, selections)
    if output == "json":
        items = [dict(zip(headers, map(terminal.item, row), strict=True)) for row in rows]
        return style.listing("List", items)
    headers, rows = listing.for_people(headers, rows)
    cells = [[terminal.cell(value) for value in row] for row in rows]
    if not any(row[-1] for row in cells):  # which is so of most lists of jobs
        headers, cells = headers[:-1], [row[:-1] for row in cells]
    return terminal.table(headers, cells, color=context.color)
