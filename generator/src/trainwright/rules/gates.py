"""Fields of Kubernetes that its API server drops or refuses until a feature gate is on."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import dig, mappings
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import SERVED
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import Behaviour, upstream

_SCHEDULING = upstream("kubernetes/job-scheduling")
_RULES = upstream("kubernetes/container-restart-rules")
_ALL = upstream("kubernetes/restart-all-containers")
_JOBS = tuple(kind.group_kind for kind in SERVED.values() if kind.immutable_template)


def _closed(subject: Subject, row: Behaviour) -> Iterator[str]:
    """Yield why a cluster does not have what a feature gate enables."""
    environment = subject.environment
    version = environment.kubernetes_version
    if not row.is_on(version, environment.kubernetes_features):
        first = f"on by default from {row.on_since}" if row.on_since else "off by default"
        yield (
            f"needs the feature gate {row.gate}, which Kubernetes has since {row.since}, {first}; "
            f"the cluster has {version}"
        )


@error("TW321", kinds=_JOBS, about=("scheduling",))
def gang_of_a_job_behind_gate(subject: Subject) -> Iterator[Hit]:
    specs = {"/spec": subject.spec}
    for index, job in enumerate(mappings(subject.spec.get("replicatedJobs"))):
        specs[f"/spec/replicatedJobs/{index}/template/spec"] = dig(job, "template", "spec") or {}
    for pointer, spec in specs.items():
        if dig(spec, "scheduling") is not None:
            for why in _closed(subject, _SCHEDULING):
                yield Hit(f"{pointer}/scheduling", f"scheduling {why}")


def _is_implied(subject: Subject, row: Behaviour) -> bool:
    """Whether the environment has a restart agent, which does not work without the gate."""
    targets = subject.environment.targets.values()
    return row is _ALL and any(options.restart_agent for options in targets)


@error("TW752", about=("restartPolicyRules",), spec=Pointer("/retries"), per_pod=True)
def restart_rules_behind_gate(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for container in template.containers:
            for index, rule in enumerate(mappings(container.body.get("restartPolicyRules"))):
                row = _ALL if rule.get("action") == "RestartAllContainers" else _RULES
                at = f"{container.pointer}/restartPolicyRules/{index}"
                for why in _closed(subject, row) if not _is_implied(subject, row) else ():
                    yield Hit(at, f"{rule.get('action')} {why}")


RULES = defined_in(globals())
