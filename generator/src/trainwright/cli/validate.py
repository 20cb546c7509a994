"""`validate`: what is wrong with any Kubernetes manifests, in the formats of `check`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    at_least,
    crds,
    examples,
    fail_on,
    kubernetes_version,
    report_format,
    today,
)


@click.command(epilog=examples("validate deploy/", "validate deploy/ --against origin/main"))
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@report_format
@fail_on
@kubernetes_version
@click.option("--env", metavar="ENV", help="The environment whose settings and rules apply.")
@crds
@click.option(
    "--against",
    metavar="REF",
    default="",
    help="Also check what happens to live objects that change since REF.",
)
@click.option(
    "--need-schemas",
    is_flag=True,
    help="Report a kind without a schema as an error instead of a note.",
)
@click.pass_obj
def validate(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    paths: tuple[str, ...],
    output: str,
    fail_on: str,
    kubernetes: str | None,
    env: str | None,
    crds: Path | None,
    against: str,
    need_schemas: bool,
) -> None:
    """Check any Kubernetes manifests: files, folders, or - for standard input."""
    from trainwright.manifests import run

    if against and "-" in paths:
        raise click.UsageError("--against needs files: git has no earlier standard input.")
    options = run.ManifestOptions(
        today=today(),
        environment=run.environment(context.root, env) if env else None,
        kubernetes=kubernetes or "",
        crds=crds,
        against=against,
        need_schemas=need_schemas,
    )
    checked = run.check(paths, options)
    from trainwright import reports  # not before: processes that were forked have no use for it

    settings = {"env": env, "crds": crds, "against": against, "kubernetes-version": kubernetes}
    words = [
        word for name, value in settings.items() if value for word in (f"--{name}", str(value))
    ]
    text = reports.write(
        checked.findings,
        checked.sources,
        output,
        checked=checked.files,
        command=shlex.join(("trainwright", "validate", *map(str, paths), *words)),
        color=context.color,
        noun="file",
    )
    click.echo(text, nl=False)
    sys.exit(FINDINGS if at_least(checked.findings, fail_on) else OK)
