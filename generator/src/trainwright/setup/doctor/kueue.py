"""What an environment says about its Kueue, compared with Kueue's configuration in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.cluster import kueue_configuration as configuration
from trainwright.cluster.client import Access, Cluster
from trainwright.cluster.errors import ClusterError
from trainwright.datatypes.durations import clock
from trainwright.datatypes.environment import Environment, Kueue
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import inline
from trainwright.rule_model.upstream import numbers, table
from trainwright.rules.kueue import INTEGRATIONS, unmanaged
from trainwright.rules.waiting import Patience, patience
from trainwright.runs.workspace import Workspace
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, ok, skipped, warning

_NONE = ok("no environment has queues of Kueue")


def kueue(examined: Examined) -> Iterator[Diagnosis]:
    """Yield which environments could be compared with their clusters."""
    names = ", ".join(environment.name for environment in _queueing(examined))
    not_compared = skipped(f"{names}: not compared with its cluster: `doctor --live`")
    yield not_compared if names else _NONE


def compared_kueue(examined: Examined) -> Iterator[Diagnosis]:
    """Compare each environment with its cluster; one that cannot be read hides no other."""
    environments = _queueing(examined)
    if not environments:
        yield _NONE
    for environment in environments:
        try:
            yield from _compared(examined.workspace, environment)
        except ClusterError as error:
            yield _unread(environment, error)


def _queueing(examined: Examined) -> list[Environment]:
    environments = examined.workspace.environments.values()
    return [environment for environment in environments if environment.queueing == "kueue"]


def _unread(environment: Environment, error: ClusterError) -> Diagnosis:
    return warning(
        f"{environment.name}: not compared: {error}",
        "Rules about queues go by what environment.yaml says.",
        "Name the cluster with KUBECONFIG or kubernetes.context, and bind the role that "
        f"`trainwright status --print-rbac {configuration.ROLE}` prints in "
        f"{configuration.NAMESPACE}.",
        environment.place,
    )


def _compared(workspace: Workspace, environment: Environment) -> Iterator[Diagnosis]:
    live, image = configuration.read(Cluster(Access(context=environment.kube_context)))
    differences = tuple(_differences(environment.kueue, live))
    for difference in differences:
        yield _diagnosis(workspace, environment, difference)
    if not differences:
        has = f"Kueue {live.version}, as environment.yaml has it"
        if not live.version:
            has = f"Kueue's image {image} names no version; the rest is as environment.yaml has it"
        yield ok(f"{environment.name}: {has}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """A difference from environment.yaml: the line to write, and which rules it misleads."""

    key: str
    line: str
    message: str
    effect: str


def _diagnosis(
    workspace: Workspace, environment: Environment, difference: _Difference
) -> Diagnosis:
    document = workspace.loaded(environment.name).document
    assert document is not None, "the environment was read from it"
    return warning(
        f"{environment.name}: {difference.message}",
        difference.effect,
        f"Write `{difference.line}` below `kueue`.",
        document.key_place(Pointer.of("kueue", difference.key)),
    )


def _differences(declared: Kueue, live: Kueue) -> Iterator[_Difference]:
    """Yield each field of environment.yaml that is not as in the cluster, one by one."""
    if not live.version:
        live = replace(live, version=declared.version)
    yield from _version(declared, live)
    yield from _frameworks(declared, live)
    yield from _waiting(declared, live)
    yield from _gates(declared.feature_gates, live)


def _version(declared: Kueue, live: Kueue) -> Iterator[_Difference]:
    if numbers(declared.version) != numbers(live.version):
        said = f'is "{declared.version}"' if declared.version else "is not given"
        minor = ".".join(map(str, numbers(live.version)))
        yield _Difference(
            key="version",
            line=f'version: "{minor}"',
            message=f"kueue.version {said}, and Kueue {live.version} runs",
            effect="Rules and the table of edits are those of another version.",
        )


def _frameworks(declared: Kueue, live: Kueue) -> Iterator[_Difference]:
    rows = {row.value: row for row in INTEGRATIONS.values()}
    said = replace(declared, version=live.version)
    other = [
        name
        for name, row in rows.items()
        if (name in live.frameworks) == bool(unmanaged(said, row))
    ]
    if other:
        named = ", ".join(
            f"the integration {name} is {_switched(name in live.frameworks)} in the cluster, "
            f"and {_switched(name not in live.frameworks)} here"
            for name in other
        )
        yield _Difference(
            key="frameworks",
            line=f"frameworks: {inline([name for name in live.frameworks if name in rows])}",
            message=named,
            effect="A queued job of a kind that is off starts past every quota (TW606).",
        )


def _switched(on: bool) -> str:
    return "on" if on else "off"


def _waiting(declared: Kueue, live: Kueue) -> Iterator[_Difference]:
    said = patience(replace(live, wait_for_pods_ready=declared.wait_for_pods_ready))
    is_ = patience(live)
    if is_ != said:
        yield _Difference(
            key="waitForPodsReady",
            line=f"waitForPodsReady: {inline(_written(is_))}",
            message=f"Kueue waits {_words(is_)}; by environment.yaml {_words(said)}",
            effect="Runs that Kueue evicts again and again are not found (TW620, TW621, TW622), or "
            "others are reported.",
        )


def _written(waits: Patience | None) -> dict[str, str | bool]:
    if waits is None:
        return {"enable": False}
    later = {} if waits.later == waits.first else {"recoveryTimeout": clock(waits.later)}
    return {"timeout": clock(waits.first), **later}


def _words(waits: Patience | None) -> str:
    if waits is None:
        return "for no pods"
    later = clock(waits.later) if waits.later else "for ever"
    return f"{clock(waits.first)} for all pods of a run, later {later}"


def _gates(declared: Mapping[str, bool], live: Kueue) -> Iterator[_Difference]:
    """Yield differences in feature gates that are not at the version's default, if it is known."""
    defaults = {
        row.gate: row.is_on_by_default(live.version)
        for name, row in table().items()
        if row.gate and name.startswith("kueue/")
    }

    def unusual(gates: Mapping[str, bool]) -> dict[str, bool]:
        return {name: on for name, on in gates.items() if defaults.get(name) != on}

    said, is_ = unusual(declared), unusual(live.feature_gates)
    sets = {name: on for name, on in is_.items() if said.get(name) != on}
    other = [f"the cluster sets {inline(sets)[1:-1]}"] if sets else []
    other += [f"the cluster does not set {name}" for name in said if name not in is_]
    if other:
        yield _Difference(
            key="featureGates",
            line=f"featureGates: {inline(is_)}",
            message=", ".join(other),
            effect="Rules take a gate to be as environment.yaml or the version has it.",
        )
