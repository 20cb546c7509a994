"""How a verb reaches a cluster: its options, and else the settings of the environment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from trainwright.cli.common import CANNOT, FILE, line_of
from trainwright.datatypes.frozen import dataclass

if TYPE_CHECKING:
    from trainwright.cluster.client import Cluster
    from trainwright.cluster.intent import DesiredState
    from trainwright.cluster.sessions import Session
    from trainwright.cluster.status import LiveNamespace, RunStatus, Unread
    from trainwright.datatypes.environment import Environment


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which cluster."""
    for option in (
        click.option(
            "--namespace", "-n", metavar="NAME", help="The namespace, instead of the environment's."
        ),
        click.option("--context", "kube_context", metavar="NAME", help="The kubeconfig's context."),
        click.option(
            "--kubeconfig",
            type=FILE,
            help="The kubeconfig, instead of KUBECONFIG or ~/.kube/config.",
        ),
    ):
        command = option(command)
    return command


class Reading(NamedTuple):
    """The runs of one namespace, as git wants them and as the cluster has them."""

    where: LiveNamespace
    runs: tuple[RunStatus, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """How to get to an environment's cluster: as options say, else as its own file does."""

    kubeconfig: Path | None
    context: str | None
    namespace: str | None
    _announced: set[str] = field(default_factory=set)  # once, however often it is asked

    def __call__(self, environment: Environment, began_in: str = "") -> tuple[Cluster, str]:
        """Return the cluster and the namespace to look in, and name both on stderr.

        A run stays in the namespace that it `began_in`, whatever environment.yaml says now.
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

    def run(self, root: Path, job: str, name: str = "") -> Session:
        """One run of a job."""
        from trainwright.cluster import intent, sessions

        place, desired = intent.desired_run(root, job)
        return sessions.Session(self._live(place, desired.namespace), desired, name)

    def _live(self, place: DesiredState, began_in: str) -> LiveNamespace:
        from trainwright.cluster.status import LiveNamespace

        cluster, namespace = self(place.environment, began_in)
        return LiveNamespace(cluster, place, namespace)

    def read(self, places: Iterable[DesiredState]) -> tuple[list[Reading], list[Unread]]:
        """The runs of every namespace that answers, and those namespaces that do not.

        Raises ClusterError where none does.
        """
        from trainwright.cluster.errors import ClusterError
        from trainwright.cluster.status import Unread

        readings: list[Reading] = []
        unread: list[Unread] = []
        for place, began_in in self._namespaces(places):
            part = place.within(began_in) if began_in else place
            try:
                where = self._live(part, began_in)
                readings.append(Reading(where, where.runs()))
            except ClusterError as error:
                name = self.namespace or began_in or place.environment.namespace
                unread.append(
                    Unread(environment=place.environment.name, namespace=name, error=error)
                )
        if unread and not readings:
            same = len({str(namespace.error) for namespace in unread}) == 1
            raise unread[0].error if same else ClusterError("\n".join(map(str, unread)))
        return readings, unread

    def _namespaces(self, places: Iterable[DesiredState]) -> Iterator[tuple[DesiredState, str]]:
        for place in places:
            for began_in in ("",) if self.namespace else place.namespaces:
                yield place, began_in


def name_unread(unread: Sequence[Unread]) -> None:
    """A line on stderr for each namespace that could not be read, and the exit code."""
    for namespace in unread:
        click.echo(line_of(namespace), err=True)
    if unread:
        sys.exit(CANNOT)
