"""The rules about JobSets: whether their pods meet, and restart together."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import dig, mapping, mappings
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.indexed_pod_templates import ReplicatedJob, replicated_jobs
from trainwright.kinds.indexed_rules import (
    about_gangs,
    about_jobs,
    headless_service,
)
from trainwright.kinds.jobset import KIND
from trainwright.kinds.set_rules import policies_agree
from trainwright.objects.pods.launching import options, trains_together
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.rule import Rule, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import Behaviour, upstream


def _jobs(subject: Subject) -> Iterator[ReplicatedJob]:
    return replicated_jobs(subject.spec, "/spec")


def _meet(subject: Subject) -> Iterator[Hit]:
    network = mapping(subject.spec.get("network"))
    for field in ("enableDNSHostnames", "publishNotReadyAddresses"):
        if network.get(field) is False and any(map(trains_together, subject.templates)):
            yield Hit(f"/spec/network/{field}", f"{field} is false")


_MAX_INT32 = 2147483647
_STRATEGY = upstream("jobset/in-place-restart")
_ACTIONS = upstream("jobset/restart-job")


@warning("TW309", spec=Pointer("/retries"))
def partial_gang_restart(subject: Subject) -> Iterator[Hit]:
    policy = mapping(subject.spec.get("failurePolicy"))
    if policy.get("restartStrategy") == "InPlaceRestart":
        return  # which wants the limit as high as it can be
    for job in _jobs(subject):
        limit = job.spec.get("backoffLimit")
        if limit != 0 and trains_together(job.template) and not _elastic(job.template):
            shown_limit = "6 (the default)" if limit is None else limit
            message = f"{job.name!r} has backoffLimit {shown_limit}: its Job replaces single pods"
            yield Hit(job.pointer, message)
    for index, rule in enumerate(mappings(policy.get("rules"))):
        if rule.get("action") in _ACTIONS.value and subject.pods > 1:
            at = f"/spec/failurePolicy/rules/{index}/action"
            yield Hit(at, f"{rule['action']} restarts one Job, and the ranks of others hang")


def _elastic(template: PodTemplate) -> bool:
    return any(":" in options(container).get("nnodes", "") for container in template.trains)


@error("TW312")
def in_place_restart_refused(subject: Subject) -> Iterator[Hit]:
    if dig(subject.spec, "failurePolicy", "restartStrategy") != "InPlaceRestart":
        return
    for job in _jobs(subject):
        wanted = {
            "backoffLimit": _MAX_INT32,
            "podReplacementPolicy": "Failed",
            "completions": job.spec.get("parallelism"),
        }
        for field, value in wanted.items():
            if job.spec.get(field) != value or value is None:
                actual = job.spec.get(field, "left out")
                yield Hit(Pointer(job.pointer) / field, f"{field} of {job.name!r} is {actual}")


@error("TW320")
def failure_policy_behind_gate(subject: Subject) -> Iterator[Hit]:
    policy = mapping(subject.spec.get("failurePolicy"))
    if policy.get("restartStrategy") == "InPlaceRestart":
        why = _closed(subject, _STRATEGY)
        yield from (Hit("/spec/failurePolicy/restartStrategy", f"InPlaceRestart {w}") for w in why)
    for index, rule in enumerate(mappings(policy.get("rules"))):
        if (action := rule.get("action")) in _ACTIONS.value:
            at = f"/spec/failurePolicy/rules/{index}/action"
            yield from (Hit(at, f"{action} {w}") for w in _closed(subject, _ACTIONS))


def _closed(subject: Subject, row: Behaviour) -> Iterator[str]:
    """Yield why the cluster's JobSet lacks a gated feature; nothing if its version is not known."""
    options = subject.environment.targets.get(KIND.name)
    version = options.version if options else ""
    if options is None or not version:
        return
    implied = {_STRATEGY.gate: True} if options.restart_agent else {}
    if not row.holds(version):
        yield f"came with JobSet {row.since} (gate {row.gate}), and the cluster has {version}"
    elif not row.is_on(version, {**implied, **options.feature_gates}):
        yield f"needs the gate {row.gate} of JobSet, which is alpha since {row.since} and off"


_KINDS = (KIND.group_kind,)
RULES: tuple[Rule, ...] = (
    *about_jobs(_KINDS, _jobs),
    policies_agree(_KINDS, lambda subject: ((subject.spec, "/spec"),)),
    *about_gangs(_KINDS, _jobs),
    headless_service(_KINDS, _meet),
    partial_gang_restart,
    in_place_restart_refused,
    failure_policy_behind_gate,
)
