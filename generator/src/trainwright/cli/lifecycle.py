"""Verbs that edit specs: the life of a run, from `suspend` to `retire`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import click

from trainwright.cli.common import Context, complete, examples
from trainwright.cli.edits import Writing, carry_out, each, selected, writes
from trainwright.cli.suggestions import Choice, Command

GROUPS = ("image", "entrypoint", "flags", "files")
OUTCOMES = ("succeeded", "failed", "unknown")

jobs = click.argument(
    "selections", nargs=-1, required=True, metavar="ENV[/JOB]...", shell_complete=complete
)


def _day(_context: click.Context, _option: click.Parameter, written: str) -> str:
    try:
        return date.fromisoformat(written).isoformat() if written else ""
    except ValueError as error:
        raise click.BadParameter(
            f'"{written}" is not a valid date; write one such as 2026-06-30'
        ) from error


@click.command(epilog=examples("suspend prod/llm --commit"))
@jobs
@writes
@click.pass_obj
def suspend(context: Context, /, selections: tuple[str, ...], **options: Any) -> None:
    """Stop the pods of jobs; their objects and checkpoints stay.

    In a queue of Kueue, which owns the field, a job is held by its Workload instead.
    """
    from trainwright.lifecycle import states

    carry_out(context, "suspend", selections, each(states.suspend), Writing(**options))


@click.command(epilog=examples("resume prod/llm --commit"))
@jobs
@writes
@click.pass_obj
def resume(context: Context, /, selections: tuple[str, ...], **options: Any) -> None:
    """Start the pods of suspended jobs again.

    A file that was only suspended is then what it was before.
    """
    from trainwright.lifecycle import states

    carry_out(context, "resume", selections, each(states.resume), Writing(**options))


@click.command(epilog=examples("cancel prod/llm --commit"))
@jobs
@click.option(
    "--orphan",
    is_flag=True,
    help="Take out of git also what its GitOps engine leaves running, to be deleted by hand.",
)
@writes
@click.pass_obj
def cancel(context: Context, /, selections: tuple[str, ...], orphan: bool, **options: Any) -> None:
    """End runs by taking their manifests out of git; the job specs stay.

    With `prune: immediate` the next sync deletes their objects. Runs that have ended are for
    `retire`. To be done with a job as well, delete its spec, and render. What would go on, since
    its GitOps engine deletes nothing, is refused.
    """
    from trainwright.lifecycle import states

    acts = each(lambda subject: states.cancel(subject, orphan=orphan))
    carry_out(context, "cancel", selections, acts, Writing(**options))


@click.command(
    epilog=examples(
        "rerun prod/llm --dry-run", "rerun prod/llm --commit", "rerun 'prod/*' --outdated --commit"
    )
)
@jobs
@click.option("--outdated", is_flag=True, help="Only jobs whose runs are outdated.")
@writes
@click.pass_obj
def rerun(context: Context, /, selections: tuple[str, ...], outdated: bool, **options: Any) -> None:
    """Start a new run of jobs, with all that has changed since the last one.

    The run before it leaves git. With `prune: confirm`, the default, it goes on until it is
    deleted by the command that is shown; with `prune: immediate` the next sync deletes it.
    """
    from trainwright.lifecycle.rerun import rerun as act

    acts = each(lambda subject: act(subject, outdated=outdated))
    carry_out(context, "rerun", selections, acts, Writing(**options))


@click.command(
    "set",
    epilog=examples("set prod/llm --max-duration +6h --commit", "set prod/llm --priority high"),
)
@jobs
@click.option(
    "--max-duration", metavar="DURATION", help="More time: 12h in all, or +6h more than now."
)
@click.option(
    "--priority",
    metavar="PRIORITY",
    help="A class of their queue, or a number for Lattice.",
)
@click.option("--queue", metavar="QUEUE", help="Another queue, for runs that still wait.")
@writes
@click.pass_obj
def set_(
    context: Context,
    /,
    *,
    selections: tuple[str, ...],
    max_duration: str | None,
    priority: str | None,
    queue: str | None,
    **options: Any,
) -> None:
    """Change the deadline, priority or queue of runs in place: they keep running.

    Where the API server would refuse it, or only the next run would have it, nothing is written.
    """
    from trainwright.lifecycle import operate
    from trainwright.lifecycle.extend import extend

    wanted = ((extend, max_duration), (operate.prioritize, priority), (operate.move, queue))
    given = [(act, value) for act, value in wanted if value is not None]
    if len(given) != 1:
        raise click.UsageError("give one of --max-duration, --priority and --queue")
    ((act, value),) = given
    acts = each(lambda subject: act(subject, value))
    carry_out(context, "set", selections, acts, Writing(**options))


@click.command(
    cls=Command,
    epilog=examples("promote dev/llm --to prod --commit", "promote dev/llm --to prod --only image"),
)
@click.argument("names", nargs=-1, required=True, metavar="[ENV/]JOB...", shell_complete=complete)
@click.option(
    "--from", "source", metavar="ENV", help="The environment of jobs that are given without one."
)
@click.option("--to", required=True, metavar="ENV", help="The environment to promote to.")
@click.option(
    "--only",
    metavar="PART,...",
    default="",
    help=f"Move only some of {', '.join(GROUPS)}.",
)
@click.option("--pool", metavar="POOL", help="The pool to use there, if it has another name.")
@click.option("--queue", metavar="QUEUE", help="The queue to use there, if it has another name.")
@writes
@click.pass_obj
def promote(
    context: Context,
    /,
    *,
    names: tuple[str, ...],
    source: str | None,
    to: str,
    only: str,
    pool: str | None,
    queue: str | None,
    **options: Any,
) -> None:
    """Copy a job's image, code, flags and files to another environment, and nothing else.

    What the environment owns (nodes, pool, resources, queue, volumes, ...) stays; every other
    difference is listed.
    """
    from trainwright.lifecycle.promote import promote as act

    parts = tuple(part.strip() for part in only.split(",") if part.strip())
    for part in parts:
        if part not in GROUPS:
            raise click.BadParameter(
                f'"{part}" is none of {", ".join(GROUPS)}', param_hint="--only"
            )
    _known_environment(context, to)
    selections = tuple(_from(source, to, name) for name in names)
    chosen = {key: value for key, value in (("pool", pool), ("queue", queue)) if value}
    carry_out(
        context,
        "promote",
        selections,
        lambda tree, file, history: act(tree, file, history, to, parts, chosen),
        Writing(**options),
    )


def _from(source: str | None, to: str, name: str) -> str:
    """Return a job by its environment, which is given with its name or for all. Raise BadParameter
    where it is in neither, or contradicts.
    """
    environment, _, job = name.rpartition("/")
    if not environment and not source:
        message = f"which environment? Write ENV/{name}, or give --from"
        raise click.BadParameter(message, param_hint="JOB")
    if environment and source and environment != source:
        message = f"{name} is not in {source}, which --from names"
        raise click.BadParameter(message, param_hint="--from")
    if (environment or source) == to:
        raise click.BadParameter("is the environment it comes from", param_hint="--to")
    return f"{environment or source}/{job}"


def _known_environment(context: Context, name: str) -> None:
    from trainwright.files.tree import Folder
    from trainwright.specs import inventory, select

    select.select((name,), inventory.discover(Folder(context.root)).jobs)


@click.command(epilog=examples("pin prod/llm --commit", "pin prod --from-lock"))
@jobs
@click.option("--digest", metavar="IMAGE", help="Use this digest: [repository[:tag]@]sha256:…")
@click.option("--from-lock", is_flag=True, help="Read environments/images.lock.yaml, offline.")
@click.option("--record", is_flag=True, help="Write what is found into that file, too.")
@click.option("--update", is_flag=True, help="Look up again what is pinned already.")
@click.option("--plain-http", is_flag=True, help="Ask the registry without TLS.")
@writes
@click.pass_obj
def pin(
    context: Context,
    /,
    *,
    selections: tuple[str, ...],
    digest: str | None,
    from_lock: bool,
    record: bool,
    update: bool,
    plain_http: bool,
    **options: Any,
) -> None:
    """Pin images: write the digests that registries have for their tags into job specs.

    This uses the registry over the network, unless a digest is given or the lock is read.
    """
    from trainwright.lifecycle import pin as pinning

    if digest and (from_lock or record):
        raise click.UsageError("--digest leaves nothing to look up or record")
    if digest:
        image = pinning.given(digest)
        _one_repository(context, selections, image.repository)
        acts = each(lambda subject: pinning.pin_given(subject, image))
    else:
        resolve = _resolver(context, from_lock=from_lock, plain_http=plain_http)
        acts = each(lambda s: pinning.pin(s, resolve, update=update, record=record))
    carry_out(context, "pin", selections, acts, Writing(**options))


def _resolver(context: Context, *, from_lock: bool, plain_http: bool) -> Callable[[str, str], str]:
    from functools import cache

    from trainwright.files.tree import Folder
    from trainwright.specs import image_lock

    recorded = image_lock.locked(Folder(context.root)) if from_lock else {}

    @cache
    def resolve(repository: str, tag: str) -> str:
        named = f"{repository}:{tag}"
        if not from_lock:
            return image_lock.ask(repository, tag, plain_http=plain_http)
        if named not in recorded:
            raise image_lock.ImageError(
                f"{image_lock.LOCK} has no {named}; `trainwright pin --record`"
            )
        return recorded[named]

    return resolve


def _one_repository(context: Context, selections: tuple[str, ...], given: str) -> None:
    """A digest alone says nothing of whose it is: it must not reach jobs of another image."""
    from trainwright.files.tree import Folder
    from trainwright.lifecycle.subject import load

    if given:
        return
    tree = Folder(context.root)
    repositories = {
        load(tree, file, None).value("/image/repository") for file in selected(context, selections)
    }
    if len(repositories) > 1:
        raise click.UsageError(
            f"these jobs run {len(repositories)} images: name the one, "
            f"--digest {min(repositories)}@sha256:…"
        )


@click.command(
    epilog=examples(
        "retire prod/llm --outcome succeeded --commit",
        "retire prod/llm --outcome failed --reason OOMKilled --commit",
    )
)
@jobs
@click.option(
    "--outcome",
    type=Choice(OUTCOMES),
    default="unknown",
    show_default=True,
    help="How the run ended. One that was retired as unknown takes another outcome later.",
)
@click.option("--reason", default="", help="Why it ended, as the cluster reports it.")
@click.option("--note", default="", help="A note for people who read the ledger.")
@click.option(
    "--finished",
    callback=_day,
    default="",
    metavar="DATE",
    help="The day on which it ended, such as 2026-06-30.",
)
@writes
@click.pass_obj
def retire(
    context: Context,
    /,
    selections: tuple[str, ...],
    outcome: str,
    reason: str,
    note: str,
    finished: str,
    **options: Any,
) -> None:
    """Record finished runs in ledger.yaml, and take their manifests out of git.

    Nothing trains again: not after a prune, not from a fresh clone. With `prune: confirm`, the
    default, their objects stay in the cluster until they are deleted. `rerun`, or any change of
    the spec, is a new run. `cancel` is for runs that train.
    """
    from trainwright.lifecycle import retire as retiring

    ending = retiring.Ending(outcome=outcome, reason=reason, note=note, finished=finished)
    acts = each(lambda subject: retiring.retire(subject, ending))
    carry_out(context, "retire", selections, acts, Writing(**options))
