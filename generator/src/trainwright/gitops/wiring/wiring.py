"""The wiring type: a frozen value with the configuration of one engine in one mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from posixpath import join

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import ChartSource, Environment, GitOps
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.layout import ENVIRONMENTS, RENDERED
from trainwright.datatypes.pointer import Pointer
from trainwright.objects import own_labels
from trainwright.objects.naming import wiring
from trainwright.specs.own_objects import COPIES

Files = Mapping[str, tuple[dict[str, Data], ...]]  # Kubernetes objects by file name


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredRun:
    """A rendered job: its name, its object's name and namespace, and its chart and values.

    `pinned` is whether the run is known to have begun with this chart. If it is not, the chart is
    the one in environment.yaml.
    """

    job: str
    object: str
    target: str
    namespace: str
    chart: ChartSource
    pinned: bool
    values: Mapping[str, Data]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An environment to be wired. `runs` are only filled in for wirings that list them.

    `earlier` is the environment as it was for runs that began before it was edited. `objects` are
    the kinds of its own objects, `adopted` those of runs that were adopted as they are.
    """

    environment: Environment
    earlier: tuple[Environment, ...] = ()
    runs: tuple[WiredRun, ...] = ()
    objects: tuple[GroupKind, ...] = ()
    adopted: tuple[GroupKind, ...] = ()

    @property
    def environments(self) -> tuple[Environment, ...]:
        """The environment as it is, and as it was when its earlier runs began."""
        return (self.environment, *self.earlier)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespace of new runs, and then those of runs that began in another."""
        others = {place.namespace for place in self.earlier} - {self.environment.namespace}
        return (self.environment.namespace, *sorted(others))

    @property
    def queued(self) -> bool:
        """Whether Kueue starts any of its runs."""
        return any(place.queueing == "kueue" for place in self.environments)

    @property
    def gitops(self) -> GitOps:
        return self.environment.gitops

    @property
    def name(self) -> str:
        return wiring(self.environment)

    @property
    def rendered(self) -> str:
        """The folder of the rendered files in the repository that the engine reads."""
        return join(self.gitops.repository.path, ENVIRONMENTS, self.environment.name, RENDERED)

    @property
    def copies(self) -> str:
        """The folder of the environment's own objects in that repository, as they are applied."""
        return join(self.rendered, COPIES)

    @property
    def labels(self) -> dict[str, str]:
        return {
            own_labels.MANAGED_BY: own_labels.OURS,
            own_labels.ENVIRONMENT: self.environment.name,
        }

    def too_old(self, requirements: Iterator[Requirement]) -> Iterator[InvalidSetting]:
        """Yield the engine's version as invalid for each requirement that it does not meet."""
        engine, version = ENGINES[self.gitops.engine], self.gitops.version
        for needed in requirements:
            if not needed.is_met(version):
                message = f"{engine} {version} does not know {needed.what}"
                remedy = f"Upgrade it to {needed.version} or later, and gitops.version with it."
                yield InvalidSetting(Pointer("/version"), message, remedy)


ENGINES = {"argocd": "Argo CD", "flux": "Flux"}


@dataclass(frozen=True, slots=True)
class InvalidSetting:
    """A field of `gitops` that is missing or has no meaning here, why, and what to do."""

    path: Pointer
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """The first version of an engine that knows something which is written for it."""

    version: str
    what: str

    def is_met(self, installed: str) -> bool:
        """Whether an installed version is new enough; an unknown one (empty) counts as such."""
        return not installed or _numbers(installed) >= _numbers(self.version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How one GitOps engine, in one mode, is configured for an environment.

    `namespace` is where the engine is usually installed. `lists_runs` is whether, by the settings,
    the output depends on the jobs, and `reads_values` whether on their values as well.
    `unfit` yields settings that are missing or would be ignored, `requires` what the engine has to
    support.
    """

    engine: str
    mode: str
    summary: str
    namespace: str
    build: Callable[[Site, str], Files]
    unfit: Callable[[Site], Iterator[InvalidSetting]]
    requires: Callable[[Site], Iterator[Requirement]]
    lists_runs: Callable[[GitOps], bool] = lambda _: False
    reads_values: bool = False
