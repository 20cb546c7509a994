"""How a verb reaches a cluster: its options, and else the settings of the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.datatypes.frozen import dataclass

if TYPE_CHECKING:
    from trainwright.cli.common import Context
    from trainwright.cluster.client import Cluster
    from trainwright.cluster.intent import DesiredState
    from trainwright.cluster.sessions import Session
    from trainwright.datatypes.model import Environment


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which cluster."""
    for option in (
        click.option("--namespace", "-n", help="The namespace, instead of the environment's."),
        click.option("--context", "kube_context", metavar="NAME", help="The kubeconfig's context."),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="The kubeconfig, instead of KUBECONFIG or ~/.kube/config.",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Reach:
    """How to get to an environment's cluster: as options say, else as its own file does."""

    kubeconfig: Path | None
    context: str | None
    namespace: str | None
    _announced: set[str] = field(default_factory=set)  # once, however often it is asked

    def __call__(self, environment: Environment, began_in: str = "") -> tuple[Cluster, str]:
        """The cluster and the namespace, which are named on stderr.

        A run that began in another namespace than environment.yaml says now is there.
        """
        from trainwright.cluster.client import Access, Cluster

        context = self.context or environment.kube_context
        cluster = Cluster(Access(kubeconfig=str(self.kubeconfig or ""), context=context))
        namespace = self.namespace or began_in or environment.namespace
        line = f"{environment.name}: namespace {namespace} of {cluster.where}"
        if line not in self._announced:
            self._announced.add(line)
            click.echo(line, err=True)
        return cluster, namespace

    def run(self, context: Context, job: str, name: str = "") -> Session:
        """One run of a job."""
        from trainwright.cluster import intent, sessions

        place, desired = intent.desired_run(context.root, job)
        cluster, where = self(place.environment, desired.namespace)
        return sessions.Session(cluster, place, desired, where, name)

    def parts(self, places: Iterable[DesiredState]) -> Iterator[tuple[DesiredState, Cluster, str]]:
        """What git wants in each namespace, with the cluster that has it."""
        for place in places:
            for began_in in ("",) if self.namespace else place.namespaces:
                cluster, where = self(place.environment, began_in)
                yield place.within(began_in) if began_in else place, cluster, where
