"""`chart`: the chart as an artefact, packaged, pushed to a registry, verified."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import FILE, FINDINGS, FOLDER, OK, OUTPUT_FOLDER, Context
from trainwright.cli.suggestions import Group

if TYPE_CHECKING:
    from trainwright.datatypes.finding import Finding

folder = click.argument("chart", required=False, type=FOLDER)
plain_http = click.option(
    "--plain-http", is_flag=True, help="Speak HTTP with the registry, as a local one may."
)


@click.group(cls=Group)
def chart() -> None:
    """Package, push and verify the chart, with the Helm that renders it."""


@chart.command()
@folder
@click.option(
    "--destination",
    "-d",
    type=OUTPUT_FOLDER,
    default=Path("dist"),
    show_default=True,
    help="The folder that the archive is written to.",
)
@click.option(
    "--against",
    metavar="REF",
    help="Compare versions with this commit. By default with the last release, if there is one.",
)
@click.option("--sign", metavar="USER", help="Sign with the PGP key whose user id has this in it.")
@click.option(
    "--keyring", type=FILE, help="The file of secret keys, as `gpg --export-secret-keys` writes it."
)
@click.option("--passphrase-file", type=FILE, help="The file whose first line unlocks the key.")
@click.pass_obj
def package(
    context: Context,
    *,
    chart: Path | None,
    destination: Path,
    against: str | None,
    sign: str | None,
    keyring: Path | None,
    passphrase_file: Path | None,
) -> None:
    """Write CHART as <name>-<version>.tgz: the same bytes for the same files.

    Without CHART, the one that Trainwright renders with. A chart that changed since the last
    release, or since --against, under the same version is refused.
    """
    from trainwright.gitops import packages
    from trainwright.helm import own_chart

    if bool(sign) != bool(keyring):
        raise click.UsageError("--sign and --keyring go together.")
    source = (chart or own_chart.FOLDER).resolve()
    findings = packages.bump(source, against)
    if findings:
        click.echo(_report(context, source, findings), err=True)
        sys.exit(FINDINGS)
    key = None
    if sign and keyring:
        key = packages.Key(user=sign, keyring=keyring, passphrase_file=passphrase_file)
    made = packages.package(source, destination, key)
    click.echo(f"{made.path} {made.digest}")


def _report(context: Context, chart: Path, findings: tuple[Finding, ...]) -> str:
    from trainwright import reports

    file = findings[0].place.file
    lines = (chart / Path(file).name).read_text(encoding="utf-8").splitlines()
    text = reports.write(
        findings,
        {file: tuple(lines)},
        "text",
        checked=(file,),
        command="trainwright admin chart package",
        color=context.color,
        noun="chart",
    )
    return text.rstrip("\n")


@chart.command()
@click.argument("archive", type=FILE)
@click.argument("remote", metavar="oci://HOST/PATH")
@plain_http
def push(archive: Path, remote: str, *, plain_http: bool) -> None:
    """Push an archive, and the provenance file beside it, to an OCI registry.

    A version that is there already stays as it is. Log in first with `helm registry login` or
    `docker login`: their files of credentials are read.
    """
    from trainwright.gitops import packages

    pushed = packages.push(archive, remote, plain_http=plain_http)
    if not pushed.fresh:
        click.echo("It was there already, the same.", err=True)
    click.echo(f"{pushed.reference}@{pushed.digest}")


@chart.command()
@click.argument("archive", metavar="FILE|oci://HOST/PATH/NAME:VERSION")
@click.option("--keyring", type=FILE, help="The file of public keys that may have signed it.")
@click.option(
    "--source",
    metavar="CHART",
    type=FOLDER,
    help="The folder that it must be the package of, byte for byte.",
)
@plain_http
def verify(archive: str, *, keyring: Path | None, source: Path | None, plain_http: bool) -> None:
    """Show who signed an archive, or that a folder packages to it. Exit 1 when it is neither."""
    import tempfile

    from trainwright.gitops import packages

    if not keyring and not source:
        raise click.UsageError("Name a --keyring, a --source, or both.")
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        remote = archive.startswith(packages.OCI)
        file = (
            packages.pull(archive, Path(scratch), plain_http=plain_http)
            if remote
            else packages.read(Path(archive))
        )
        click.echo(f"{file.name} {file.version} {file.digest}")
        if keyring:
            click.echo(f"signed by {', '.join(packages.verify(file.path, keyring))}")
        if source:
            equal = packages.same(file.path, source.resolve())
            click.echo(f"{'the same as' if equal else 'not what'} {source} gives")
            sys.exit(OK if equal else FINDINGS)
