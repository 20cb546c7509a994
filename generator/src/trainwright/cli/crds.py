"""`crds pull`: the definitions of a cluster, as files that `validate --crds` reads."""

from __future__ import annotations

from pathlib import Path

import click

from trainwright.cli.common import FILE, OUTPUT_FOLDER
from trainwright.cli.suggestions import Group


@click.group(cls=Group)
def crds() -> None:
    """Fetch the CustomResourceDefinitions that manifests are checked against."""


@crds.command()
@click.option(
    "--context", "kube_context", default="", metavar="NAME", help="The kubeconfig's context."
)
@click.option(
    "--kubeconfig", type=FILE, help="The kubeconfig, instead of KUBECONFIG or ~/.kube/config."
)
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    default=Path("crds"),
    show_default=True,
    help="The folder to write <group>/<plural>.yaml into.",
)
def pull(kube_context: str, kubeconfig: Path | None, out: Path) -> None:
    """Write the CustomResourceDefinitions of a cluster into a folder.

    Files of definitions that the cluster has no more are left alone.
    """
    from trainwright.cluster.client import Access, Cluster, Resource
    from trainwright.files import filetree
    from trainwright.manifests import pull as pulling

    cluster = Cluster(Access(kubeconfig=str(kubeconfig or ""), context=kube_context))
    click.echo(f"from {cluster.where}", err=True)
    resource = Resource(api_version=pulling.API_VERSION, plural=pulling.PLURAL, namespaced=False)
    changes = pulling.changes(out, cluster.all(resource, ""))
    filetree.apply(out, changes)
    counts = {"added": len(changes.added), "changed": len(changes.changed)}
    message = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    click.echo(f"{out}: {message or 'up to date'}")
