"""An environment of a repository: its pools, queues, GitOps engine and settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.durations import seconds
from trainwright.datatypes.fields import NOT_WRITTEN, written
from trainwright.datatypes.finding import Location, Severity
from trainwright.datatypes.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What one node offers to pods, as Kubernetes quantities; empty if unknown."""

    cpu: str = field(default="", metadata=written("cpu", read=quantity.cores))
    memory: str = ""
    ephemeral_storage: str = ""
    nics: int | None = None  # of the kind that is counted as an extended resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes that jobs ask for by name. `capacity` counts accelerators (nodes when it has none)."""

    name: str = field(metadata=NOT_WRITTEN)
    resource: str = ""  # extended resource name, "nvidia.com/gpu"; empty for a CPU pool
    tolerations: tuple[Mapping[str, Data], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    gpus_per_node: int | None = None
    node: Node = Node()
    fabric: str = ""  # a profile of `fabrics`
    capacity: int | None = None
    price_per_gpu_hour: float | None = None
    spot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What an environment may spend a month: accelerator hours, and money as pools price it."""

    gpu_hours: float | None = None
    cost: float | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """What this environment's cluster has installed for one target."""

    version: str = ""
    # jobset: the gates whose state is not their default
    feature_gates: Mapping[str, bool] = field(default_factory=dict, hash=False)
    restricted_init_container: bool = False  # operator's init-pytorch passes `restricted`
    # trainingjob without the agent: etcd-v2
    rendezvous_backend: str = field(default="", metadata=written("rendezvous", "backend"))
    rendezvous_endpoint: str = field(default="", metadata=written("rendezvous", "endpoint"))
    # jobset: the image of the agent that restarts pods in place, and the ServiceAccount for it
    restart_agent: str = field(default="", metadata=written("inPlaceRestart", "image"))
    restart_account: str = field(default="", metadata=written("inPlaceRestart", "serviceAccount"))
    runtime: str = ""  # trainjob: a ClusterTrainingRuntime; empty when a run brings its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A finding that was accepted, why, and until when (ISO date, last day included)."""

    rule: str
    reason: str
    until: str
    job: str = "*"  # glob over job names
    place: Location

    def holds(self, today: str) -> bool:
        """Whether it waives findings on a day."""
        return self.until >= today


@dataclass(frozen=True, slots=True)
class SeverityOverride:
    """The severity that an environment gives a rule, and where it says so.

    A `required` rule is an error that no job spec may waive.
    """

    severity: Severity
    place: Location
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who signed without a key, by regular expressions."""

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Whose signature the GitOps engine requires: `keys` and `mode` are Argo CD's, the rest Flux's.

    Empty for an engine's own default, or where the engine does not read it.
    """

    keys: tuple[str, ...] = ()
    mode: Literal["", "head", "strict"] = ""
    secret: str = ""
    provider: Literal["", "cosign", "notation"] = ""
    identities: tuple[Identity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Where the GitOps engine finds environments/: a git repository, or an OCI artifact."""

    url: str = ""
    revision: str = "main"  # branch, refs/tags/<tag>, commit; or the tag of an OCI artifact
    path: str = ""  # folder of the repository that holds environments/
    secret: str = ""  # what Flux logs in with
    verify: Verify | None = None


_PINNED = re.compile(r"[0-9a-f]{40}|refs/tags/.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSource:
    """Where the GitOps engine finds the chart: `oci` with `version`, or `path` in a repository."""

    oci: str = ""
    version: str = ""
    url: str = ""  # empty: the repository of the environments
    revision: str = ""
    path: str = ""
    secret: str = ""  # what Flux logs in with
    verify: Verify | None = None

    @property
    def pinned(self) -> bool:
        """Whether the chart stays the same: that of a branch changes with each commit."""
        return bool(self.version if self.oci else _PINNED.fullmatch(self.revision))


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The cluster to apply to, as Argo CD knows it; its own when both are empty."""

    server: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitOps:
    """Which GitOps engine applies rendered files, from where, and what it asks before deletions."""

    engine: Literal["argocd", "flux", "none"] = "argocd"
    mode: Literal["rendered", "chart"] = "rendered"
    prune: Literal["confirm", "immediate"] = "confirm"
    applications: Literal["job", "environment"] = "job"
    version: str = ""  # the engine's
    name: str = ""
    namespace: str = ""  # the engine's own; empty: where it is usually installed
    project: str = ""  # an AppProject that exists; empty: one of our own
    service_account: str = ""
    repository: Repository = Repository()
    chart: ChartSource = ChartSource()
    destination: Destination = Destination()
    notifications: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def finds_runs_by(self) -> Literal["list", "values", "wiring"]:
        """What decides which runs are applied: rendered/kustomization.yaml, a values.yaml for each
        of them, or wiring/.
        """
        whole = (self.mode, self.applications) == ("rendered", "environment")
        if self.engine == "none" or whole:
            return "list"
        return "values" if self.engine == "argocd" else "wiring"

    @property
    def chart_of_new_runs(self) -> ChartSource:
        """The chart, with the default revision if none is written."""
        default = "main" if self.chart.url else self.repository.revision
        git = self.chart.path and not self.chart.oci
        return replace(self.chart, revision=self.chart.revision or default) if git else self.chart


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForPodsReady:
    """How long Kueue waits for pods that it admitted, in seconds; None is Kueue's default."""

    enable: bool = True
    timeout: int | None = field(default=None, metadata=written(read=seconds))
    recovery_timeout: int | None = field(default=None, metadata=written(read=seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kueue:
    """The cluster's Kueue, as far as its configuration is not that of its version."""

    version: str = ""
    frameworks: tuple[str, ...] = ()
    wait_for_pods_ready: WaitForPodsReady | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)


def _quotas(queues: Mapping[str, Data]) -> dict[str, int | None]:
    return {name: (queue or {}).get("quota") for name, queue in queues.items()}


def _elsewhere(queues: Mapping[str, Data]) -> frozenset[str]:
    return frozenset(name for name, queue in queues.items() if (queue or {}).get("multiKueue"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment to deploy to: a cluster, a namespace, and the rules for jobs there."""

    name: str = field(metadata=NOT_WRITTEN)
    namespace: str
    place: Location = field(metadata=NOT_WRITTEN)
    kubernetes_version: str = field(metadata=written("kubernetes", "version"))
    targets: Mapping[str, TargetOptions]
    kubernetes_features: Mapping[str, bool] = field(
        default_factory=dict, metadata=written("kubernetes", "features")
    )
    # The name in people's kubeconfig; empty: whichever is current there.
    kube_context: str = field(default="", metadata=written("kubernetes", "context"))
    gitops: GitOps = GitOps()
    require_digest: bool = field(default=False, metadata=written("images", "requireDigest"))
    # Allowed image prefixes; empty allows all.
    registries: tuple[str, ...] = field(default=(), metadata=written("images", "registries"))
    # The image that fetches the code of jobs; if empty, the default in `pods.code`.
    git_sync: str = field(default="", metadata=written("images", "gitSync"))
    pools: Mapping[str, Pool] = field(default_factory=dict)
    queueing: Literal["kueue", "volcano", "coscheduling", "none"] = "none"
    kueue: Kueue = Kueue()
    # How many accelerators each queue may hold.
    queues: Mapping[str, int | None] = field(default_factory=dict, metadata=written(read=_quotas))
    # Queues whose workloads MultiKueue sends to other clusters.
    multi_kueue_queues: frozenset[str] = field(
        default=frozenset(), metadata=written("queues", read=_elsewhere)
    )
    budget: Budget = Budget()
    currency: str = "USD"  # of prices and of the budget, by ISO 4217
    secrets: tuple[str, ...] = ()  # Secrets that exist, however made; empty when not declared
    pod_security: Literal["restricted", "baseline", "privileged"] = "restricted"
    allow: tuple[str, ...] = ()  # what jobs may take beyond their share of a node or a cluster
    service_mesh: Literal["istio", "linkerd", "none"] = "none"
    shared_changes: Literal["hold", "start"] = "hold"  # what an edit of a shared file does to runs
    severities: Mapping[str, SeverityOverride] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()

    def requires(self, rule: str) -> bool:
        """Whether no job spec may waive a rule."""
        weight = self.severities.get(rule)
        return weight is not None and weight.required

    @property
    def kubernetes_minor(self) -> int:
        return int(self.kubernetes_version.split(".")[1])
