"""`doctor`: what is missing or wrong, in the repository and on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import FINDINGS, OK, Context, answer_format, build_options, examples

if TYPE_CHECKING:
    from trainwright.setup.doctor.diagnosis import Diagnosis

_COLORS = {"ok": "green", "warning": "yellow", "error": "red", "skipped": "white"}


@click.command(epilog=examples("doctor", "doctor --live"))
@click.option(
    "--live",
    is_flag=True,
    help="Read how Kueue is configured in the clusters, and who else applies what was adopted.",
)
@answer_format
@click.pass_obj
def doctor(context: Context, output: str, *, live: bool) -> None:
    """Show what is missing or wrong, and what to do about it; exit 1 on errors, 0 on warnings.

    Looks at this machine, the specs, the clone and the workflows; uses no network without --live.
    """
    from trainwright.reports import style
    from trainwright.setup.doctor.examination import examine

    diagnoses = examine(context.root, build_options(helm=None, no_cache=False), live=live)
    if output == "json":
        click.echo(style.listing("Diagnoses", [_item(d) for d in diagnoses]), nl=False)
    else:
        click.echo("\n".join(_text(context, diagnoses)))
    sys.exit(FINDINGS if any(d.state == "error" for d in diagnoses) else OK)


def _text(context: Context, diagnoses: tuple[Diagnosis, ...]) -> Iterator[str]:
    from trainwright.datatypes.listing import plural
    from trainwright.findings.visibility import visible

    for d in diagnoses:
        state = context.paint(f"{d.state.value:<8}", _COLORS[d.state.value])
        yield f"{state} {d.about:<13} {visible(d.message)}"
    for d in diagnoses:
        if d.remedy:
            yield ""
            title = context.paint(f"{d.state.value}[{d.about}]", _COLORS[d.state.value])
            yield f"{title}: {visible(d.message)}"
            if d.place:
                yield f" --> {visible(str(d.place))}"
            if d.effect:
                yield f"  = effect: {d.effect}"
            yield f"  = help: {visible(d.remedy)}"
    counts = [(sum(d.state == state for d in diagnoses), state) for state in ("error", "warning")]
    message = ", ".join(plural(count, state) for count, state in counts if count)
    yield f"\n{message or 'nothing is wrong'} in {plural(len(diagnoses), 'check')}"


def _item(d: Diagnosis) -> dict[str, str | None]:
    return {
        "about": d.about,
        "state": d.state.value,
        "message": d.message,
        "effect": d.effect,
        "remedy": d.remedy,
        "place": str(d.place) if d.place else None,
    }
