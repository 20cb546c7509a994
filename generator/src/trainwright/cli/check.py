"""`check`: what is wrong with job specs, in six formats."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    at_least,
    build_options,
    examples,
    fail_on,
    helm_binary,
    kubernetes_version,
    no_cache,
    report,
    report_format,
    selections,
    today,
)

if TYPE_CHECKING:
    from trainwright.cli.memory import Printed
    from trainwright.files.tree import Tree


@click.command(
    epilog=examples("check", "check prod/llm", "check --fix", "check -o github --fail-on warning")
)
@selections
@report_format
@fail_on
@kubernetes_version
@click.option(
    "--against",
    metavar="REF",
    default="",
    help="The branch to merge into. Rendered files are compared with the commit at which this "
    "branch began.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="First apply the remedies that are mechanical: show the diff, and ask before writing it.",
)
@click.option("--yes", is_flag=True, help="With --fix: write without a confirmation.")
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@no_cache
@helm_binary
@click.pass_obj
def check(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    selections: tuple[str, ...],
    output: str,
    fail_on: str,
    kubernetes: str | None,
    against: str,
    fix: bool,
    yes: bool,
    watch: bool,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Validate job specs and check what they render to."""
    if (watch or fix) and (kubernetes or helm):
        raise click.UsageError(
            "--fix and --watch exclude --kubernetes-version and --helm: they are about job specs "
            "as they are."
        )
    if yes and not fix:
        raise click.UsageError("--yes belongs to --fix.")
    if fix:
        from trainwright.cli.fix import fix as apply_fixes

        apply_fixes(context, selections, yes=yes)
    if watch:
        from trainwright.cli.watch import findings as watch_findings

        watch_findings(context, selections, output)
    arguments = {"output": output, "fail_on": fail_on, "helm": helm or "", "against": against}
    # What was found out for another version must neither be read nor remembered.
    if no_cache or kubernetes:
        printed = _jobs(context, selections, arguments, kubernetes=kubernetes or "")
    else:
        printed = _remembered(context, selections, arguments)
    click.echo(printed.text, nl=False)
    sys.exit(printed.code)


def _remembered(
    context: Context, selections: tuple[str, ...], arguments: Mapping[str, str]
) -> Printed:
    """Return what a check prints, from memory unless something has changed since the last one."""
    from trainwright.cli.memory import Memory
    from trainwright.files import lineage
    from trainwright.files.memory import EMBEDDED

    settings = {**arguments, "today": today(), "color": str(context.color)}
    commits = lineage.state(context.root, arguments["against"])
    settings |= {f"git {name}": commit for name, commit in commits.items()}
    engine = arguments["helm"] or EMBEDDED
    memory = Memory(context.root, "check", selections, settings, engine=engine)
    return memory.recall() or memory.print(
        lambda tree: _jobs(context, selections, arguments, tree=tree)
    )


def _jobs(
    context: Context,
    selections: tuple[str, ...],
    arguments: Mapping[str, str],
    *,
    tree: Tree | None = None,
    kubernetes: str = "",
) -> Printed:
    """Check the specs and return the printed report; without a tree, the cache is not used."""
    from trainwright.api import wired
    from trainwright.cli.memory import Printed
    from trainwright.findings.diagnostics import UNCOMPARED
    from trainwright.helm import sdk

    if not arguments["helm"]:
        sdk.start()  # what is imported below takes as long
    options = build_options(arguments["helm"] or None, no_cache=tree is None)
    with context.progress("checking", arguments["output"]):
        options = replace(options, kubernetes=kubernetes, proves=True, against=arguments["against"])
        options = replace(options, wired=wired)
        build = context.repository.build(selections, options, tree)
    text = report(context, build, arguments["output"], selections)
    failed = at_least(build.findings, arguments["fail_on"])
    # A fetch brings the missing base, and changes no file.
    lasts = all(finding.rule != UNCOMPARED.id for finding in build.findings)
    return Printed(text, FINDINGS if failed else OK, lasts)
