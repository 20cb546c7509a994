"""`verify`: whether the rendered files of a commit are what its sources render to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    OUTPUT_FOLDER,
    Context,
    answer_format,
    build_options,
    complete,
    examples,
    helm_binary,
)

if TYPE_CHECKING:
    from trainwright.gitops.verification import Verification


@click.command(epilog=examples("gitops verify HEAD", "gitops verify HEAD prod --against v1.4"))
@click.argument("commit")
@click.argument("environments", nargs=-1, metavar="[ENV]...", shell_complete=complete)
@click.option(
    "--against",
    metavar="REF",
    default="",
    help="Trust this earlier commit, and verify only the commits after it.",
)
@click.option(
    "--statements",
    type=OUTPUT_FOLDER,
    help="Write an in-toto statement of each environment that is equal into this folder.",
)
@answer_format
@helm_binary
@click.pass_obj
def verify(
    context: Context,
    *,
    commit: str,
    environments: tuple[str, ...],
    against: str,
    statements: Path | None,
    output: str,
    helm: str | None,
) -> None:
    """Verify that the rendered files of COMMIT are what its specs render to.

    Nothing is checked out.

    Each run is rendered from the sources of the commit that recorded it, back to the first one; of
    a commit that was published, from the sources that the branch states.

    Exits with 1 when a file is not equal, or cannot be rendered again here.
    """
    from dataclasses import replace

    from trainwright.gitops import verification

    with context.progress("verifying", output):
        options = replace(build_options(helm, no_cache=True), check_next_runs=False)
        verified = verification.verify(context.root, commit, environments, against, options)
    click.echo(_FORMATS[output](verified), nl=False)
    if statements is not None:
        _write(statements, verified)
    sys.exit(OK if verified.equal else FINDINGS)


def _text(verified: Verification) -> str:
    from trainwright.findings import credentials
    from trainwright.findings.visibility import visible

    lines = []
    for each in verified.sets:
        for file in each.files:
            place = f"{file.path}:{file.line}" if file.why else file.path
            reason = f": {file.why}" if file.why else ""
            lines.append(visible(credentials.redact(f"{place}: {file.verdict}{reason}")))
        verdicts = [file.verdict for file in each.files]
        counts = [f"{verdicts.count(v)} {v}" for v in dict.fromkeys(("equal", *verdicts))]
        source = each.rendered.commit
        of = f", published from {source[:12]}" if source != verified.commit else ""
        lines.append(visible(f"{each.environment}: {', '.join(counts)}{of}"))
    return "".join(f"{line}\n" for line in lines)


def _json(verified: Verification) -> str:
    from trainwright.findings import credentials
    from trainwright.reports import style

    return style.listing(
        "Verification",
        [
            {
                "environment": each.environment,
                "commit": verified.commit,
                "source": each.rendered.commit,
                "base": each.rendered.base,
                "equal": each.equal,
                "files": [
                    {
                        "path": file.path,
                        "verdict": file.verdict,
                        "sha256": file.sha256,
                        "why": credentials.redact(file.why),
                        "line": file.line,
                    }
                    for file in each.files
                ],
            }
            for each in verified.sets
        ],
    )


_FORMATS = {"text": _text, "json": _json}


def _write(folder: Path, verified: Verification) -> None:
    from trainwright.datatypes.errors import OutputError
    from trainwright.gitops import statement

    sets = (each.rendered for each in verified.sets if each.equal)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in ((n, t) for it in sets for n, t in statement.for_signing(it).items()):
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from error
