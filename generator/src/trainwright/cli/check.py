"""`check`: what is wrong with job specs, or with any manifests, in six formats."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    errors,
    helm_binary,
    no_cache,
    output_format,
    planning,
    report,
    selections,
    today,
)
from trainwright.cli.suggestions import Choice

if TYPE_CHECKING:
    from trainwright.cli.memory import Printed
    from trainwright.datatypes.model import Finding
    from trainwright.files.tree import Tree
    from trainwright.manifests.run import ManifestOptions

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")
VERSIONS = tuple(f"1.{minor}" for minor in range(29, 38))  # kube.VERSIONS, which costs an import


@click.command()
@selections
@output_format(FORMATS, "report")
@click.option(
    "--fail-on",
    type=Choice(["error", "warning", "note"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@click.option(
    "--kubernetes-version",
    "kubernetes",
    type=Choice(VERSIONS),
    help="Check for this version of Kubernetes instead of the environment's own.",
)
@click.option(
    "--manifests",
    multiple=True,
    metavar="PATH",
    help="Check Kubernetes manifests instead of job specs: a file, a folder or - for standard "
    "input. May be given several times.",
)
@click.option(
    "--env", metavar="ENV", help="With --manifests: the environment whose settings and rules apply."
)
@click.option(
    "--crds",
    type=click.Path(path_type=Path, exists=True),
    help="With --manifests: CustomResourceDefinitions to hold them against, as files.",
)
@click.option(
    "--against",
    metavar="REF",
    help="The branch to merge into: what is rendered is proved from the commit where this one "
    "began. With --manifests: also what happens to live objects that change since REF.",
)
@click.option(
    "--skip-missing-schemas/--need-schemas",
    "skip",
    default=True,
    show_default=True,
    help="With --manifests: whether a kind without a schema is a note or an error.",
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
def check(  # noqa: PLR0913, PLR0917 - one an option
    context: Context,
    selections: tuple[str, ...],
    output: str,
    fail_on: str,
    kubernetes: str | None,
    manifests: tuple[str, ...],
    env: str | None,
    crds: Path | None,
    against: str | None,
    skip: bool,
    fix: bool,
    yes: bool,
    watch: bool,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Validate job specs and check what they render to, or check any Kubernetes manifests."""
    if manifests and selections:
        raise click.UsageError("--manifests and a selection of jobs exclude each other.")
    if not manifests and (env or crds or not skip):
        raise click.UsageError("--env, --crds and --need-schemas belong to --manifests.")
    if against and "-" in manifests:
        raise click.UsageError("--against needs files: git has no earlier standard input.")
    if (watch or fix) and (manifests or kubernetes or helm):
        raise click.UsageError(
            "--fix and --watch exclude --manifests, --kubernetes-version and --helm: they are "
            "about job specs as they are."
        )
    if yes and not fix:
        raise click.UsageError("--yes belongs to --fix.")
    with errors():
        if fix:
            from trainwright.cli.fix import fix as apply_fixes

            apply_fixes(context, selections, yes=yes)
        if watch:
            from trainwright.cli.watch import findings as watch_findings

            watch_findings(context, selections, output)
        if manifests:
            from trainwright.manifests.run import ManifestOptions

            options = ManifestOptions(
                today=today(),
                kubernetes=kubernetes or "",
                crds=crds,
                against=against or "",
                need_schemas=not skip,
            )
            findings = _manifests(context, manifests, env, options, output)
            sys.exit(FINDINGS if _at_least(findings, fail_on) else OK)
        asked = {"output": output, "fail_on": fail_on, "helm": helm or ""}
        asked |= {"against": against or ""}
        # What was found out for another version must neither be read nor remembered.
        if no_cache or kubernetes:
            printed = _jobs(context, selections, asked, kubernetes=kubernetes or "")
        else:
            printed = _remembered(context, selections, asked)
        click.echo(printed.text, nl=False)
        sys.exit(printed.code)


def _remembered(context: Context, selections: tuple[str, ...], asked: Mapping[str, str]) -> Printed:
    """What a check of specs prints, found out where something has changed since it last was."""
    from trainwright.cli.memory import Memory
    from trainwright.files import lineage
    from trainwright.files.memory import EMBEDDED

    settings = {**asked, "today": today(), "color": str(context.color)}
    commits = lineage.state(context.root, asked["against"])
    settings |= {f"git {name}": commit for name, commit in commits.items()}
    engine = asked["helm"] or EMBEDDED
    memory = Memory(context.root, "check", selections, settings, engine=engine)
    return memory.recall() or memory.print(
        lambda tree: _jobs(context, selections, asked, tree=tree)
    )


def _jobs(
    context: Context,
    selections: tuple[str, ...],
    asked: Mapping[str, str],
    *,
    tree: Tree | None = None,
    kubernetes: str = "",
) -> Printed:
    """What a check of specs prints; without a tree it forgets what the last one found out."""
    from trainwright.cli.memory import Printed
    from trainwright.helm import sdk

    if not asked["helm"]:
        sdk.start()  # what is imported below takes as long
    options = planning(asked["helm"] or None, no_cache=tree is None)
    with context.progress("checking", asked["output"]):
        options = replace(options, kubernetes=kubernetes, proves=True, against=asked["against"])
        plan = context.plan(selections, options, tree)
    text = report(context, plan, asked["output"], selections)
    failed = _at_least(plan.findings, asked["fail_on"])
    return Printed(text, FINDINGS if failed else OK)


def _manifests(
    context: Context, paths: tuple[str, ...], env: str | None, options: ManifestOptions, output: str
) -> tuple[Finding, ...]:
    from trainwright.manifests import run

    if env:
        options = replace(options, environment=run.environment(context.root, env))
    checked = run.check(paths, options)
    from trainwright import reports  # not before: processes that were forked have no use for it

    words = ["trainwright", "check", *(f"--manifests {path}" for path in paths)]
    words += [f"--env {env}"] if env else []
    words += [f"--crds {options.crds}"] if options.crds else []
    words += [f"--against {options.against}"] if options.against else []
    words += [f"--kubernetes-version {options.kubernetes}"] if options.kubernetes else []
    text = reports.write(
        checked.findings,
        checked.sources,
        output,
        checked=checked.files,
        command=" ".join(words),
        color=context.color,
        noun="file",
    )
    click.echo(text, nl=False)
    return checked.findings


def _at_least(findings: Iterable[Finding], severity: str) -> bool:
    order = ("error", "warning", "note")
    failing = order[: order.index(severity) + 1]
    return any(finding.severity.value in failing for finding in findings)
