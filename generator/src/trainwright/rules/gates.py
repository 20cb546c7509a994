"""Fields of Kubernetes that its API server drops or refuses until a feature gate is on."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import dig, mappings
from trainwright.kinds import SERVED
from trainwright.rule_model.rule import defined_in, error, pod
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.upstream import Behaviour, upstream

_SCHEDULING = upstream("kubernetes/job-scheduling")
_RULES = upstream("kubernetes/container-restart-rules")
_ALL = upstream("kubernetes/restart-all-containers")
_JOBS = tuple(kind.group_kind for kind in SERVED.values() if kind.immutable_template)
_ON = "Turn the gate on in the cluster and declare it in kubernetes.features of environment.yaml"


def _closed(subject: Subject, row: Behaviour) -> Iterator[str]:
    """Why a cluster does not have what a feature gate opens."""
    environment = subject.environment
    version = environment.kubernetes_version
    if not row.is_on(version, environment.kubernetes_features):
        first = f"on by default from {row.on_since}" if row.on_since else "off by default"
        yield (
            f"needs the feature gate {row.gate}, which Kubernetes has since {row.since}, {first}; "
            f"the cluster has {version}"
        )


def _gang(kind: str, spec: str) -> str:
    return f"apiVersion: batch/v1\nkind: {kind}\nspec: {spec}"


@error(
    id="TW321",
    summary="A Job has spec.scheduling only where the cluster schedules Jobs as gangs.",
    effect="The API server drops the field, and the pods start one by one: some hold their GPUs "
    "while the others wait for nodes.",
    remedy=f"{_ON}, or use a queue.",
    kinds=_JOBS,
    source=_SCHEDULING.source,
    passes=_gang("Job", "{scheduling: {schedulingPolicy: {gang: {minCount: 2}}}}"),
    passes_in='kubernetes: {version: "1.37", features: {WorkloadWithJob: true}}',
    fails=_gang("Job", "{scheduling: {schedulingPolicy: {gang: {minCount: 2}}}}"),
    fails_in='kubernetes: {version: "1.37"}',
    near_misses=(_gang("Job", "{template: {spec: {schedulerName: volcano}}}"),),
    variants=(
        "kind: JobSet\nspec: {replicatedJobs: [{template: {spec: {scheduling: "
        "{schedulingPolicy: {gang: {minCount: 2}}}}}}]}",
    ),
)
def gang_of_a_job_behind_gate(subject: Subject) -> Iterator[Hit]:
    specs = {"/spec": subject.spec}
    for index, job in enumerate(mappings(subject.spec.get("replicatedJobs"))):
        specs[f"/spec/replicatedJobs/{index}/template/spec"] = dig(job, "template", "spec") or {}
    for pointer, spec in specs.items():
        if dig(spec, "scheduling") is not None:
            for why in _closed(subject, _SCHEDULING):
                yield Hit(f"{pointer}/scheduling", f"scheduling {why}")


def _is_implied(subject: Subject, row: Behaviour) -> bool:
    """Whether the environment has what does not work without the gate."""
    targets = subject.environment.targets.values()
    return row is _ALL and any(options.restart_agent for options in targets)


_RESTART = "restartPolicyRules: [{action: %s, exitCodes: {operator: In, values: [42]}}]"


@error(
    id="TW752",
    summary="Containers have restartPolicyRules only where the cluster has their feature gate.",
    effect="The API server drops the rules, or refuses the pods: the container fails its pod.",
    remedy=f"{_ON}, or leave restarts to the job.",
    spec=Pointer("/retries"),
    source=_ALL.source,
    per_pod=True,
    passes=pod(_RESTART % "RestartAllContainers"),
    passes_in='kubernetes: {version: "1.36"}',
    fails=pod(_RESTART % "RestartAllContainers"),
    fails_in='kubernetes: {version: "1.35"}',
    near_misses=(pod(_RESTART % "Restart"), pod("restartPolicyRules: []")),
)
def restart_rules_behind_gate(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for container in template.containers:
            for index, rule in enumerate(mappings(container.body.get("restartPolicyRules"))):
                row = _ALL if rule.get("action") == "RestartAllContainers" else _RULES
                at = f"{container.pointer}/restartPolicyRules/{index}"
                for why in _closed(subject, row) if not _is_implied(subject, row) else ():
                    yield Hit(at, f"{rule.get('action')} {why}")


RULES = defined_in(globals())
