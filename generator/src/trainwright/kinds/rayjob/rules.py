"""The rules about RayJobs: what KubeRay refuses, and clusters that outlive their program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, integer, mapping, mappings, text
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.rayjob.pod_templates import CLUSTER
from trainwright.objects import forms
from trainwright.objects.kueue import ELASTIC, QUEUE_LABEL
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

# ray-operator/controllers/ray/utils/constant.go: a cluster, its pods and its Service add to it.
_LONGEST = 47


def _cluster(subject: Subject) -> Mapping[str, Data]:
    return mapping(subject.spec.get("rayClusterSpec"))


@error("TW811")
def invalid_rayjob(subject: Subject) -> Iterator[Hit]:
    spec, name = subject.spec, text(subject.metadata.get("name"))
    if len(name) > _LONGEST:
        yield Hit("/metadata/name", f"the name has {len(name)} characters, {_LONGEST} are possible")
    elif name and (problem := forms.LETTER_FIRST.problem(name)):
        yield Hit("/metadata/name", f'"{name}" {problem}')
    if not spec.get("rayClusterSpec") and not spec.get("clusterSelector"):
        yield Hit("/spec", "it has neither rayClusterSpec nor clusterSelector")
    yield from _exclusive(spec)
    yield from _sidecar(spec)
    yield from _sizes(_cluster(subject))


def _exclusive(spec: Mapping[str, Data]) -> Iterator[Hit]:
    """Yield fields that exclude each other."""
    selects, mode = bool(spec.get("clusterSelector")), text(spec.get("submissionMode"))
    if spec.get("suspend") is True and not spec.get("shutdownAfterJobFinishes"):
        yield Hit("/spec/suspend", "only a RayJob with shutdownAfterJobFinishes is suspended")
    if spec.get("suspend") is True and selects:
        yield Hit("/spec/suspend", "the cluster of a clusterSelector is not suspended")
    if integer(spec.get("backoffLimit")):
        if selects:
            yield Hit("/spec/backoffLimit", "with clusterSelector there is no other cluster")
        if mode == "InteractiveMode":
            yield Hit("/spec/backoffLimit", "InteractiveMode has no retries")
    yield from _ending(spec)
    for field in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        seconds = integer(spec.get(field))
        if seconds is not None and seconds <= 0:
            yield Hit(Pointer("/spec") / field, f"{field} is {seconds}, and has to be positive")


def _ending(spec: Mapping[str, Data]) -> Iterator[Hit]:
    """Yield what is wrong with retries, and with what goes when the program has ended."""
    for field in ("backoffLimit", "ttlSecondsAfterFinished"):
        number = integer(spec.get(field))
        if number is not None and number < 0:
            yield Hit(Pointer("/spec") / field, f"{field} is {number}, and has to be 0 or more")
    shuts_down, ttl = spec.get("shutdownAfterJobFinishes") is True, "ttlSecondsAfterFinished"
    if not shuts_down and (integer(spec.get(ttl)) or 0) > 0:
        yield Hit(Pointer("/spec") / ttl, f"only a RayJob with shutdownAfterJobFinishes has {ttl}")
    if shuts_down and dig(spec, "deletionStrategy", "deletionRules"):
        at = Pointer("/spec/deletionStrategy/deletionRules")
        yield Hit(at, "deletionRules and shutdownAfterJobFinishes exclude each other")


def _sidecar(spec: Mapping[str, Data]) -> Iterator[Hit]:
    """Yield what goes with no submitter in the head's pod."""
    if spec.get("submissionMode") != "SidecarMode":
        return
    for field in ("clusterSelector", "submitterPodTemplate", "submitterConfig"):
        if spec.get(field):
            yield Hit(Pointer("/spec") / field, f"SidecarMode has no {field}")
    policy = dig(spec, "rayClusterSpec", "headGroupSpec", "template", "spec", "restartPolicy")
    if policy not in (None, "", "Never"):
        at = CLUSTER / "headGroupSpec" / "template" / "spec" / "restartPolicy"
        yield Hit(at, f"the restartPolicy is {policy}, and SidecarMode needs Never")


def _sizes(cluster: Mapping[str, Data]) -> Iterator[Hit]:
    """Yield sizes of groups of workers that KubeRay refuses."""
    for index, group in enumerate(mappings(cluster.get("workerGroupSpecs"))):
        at = CLUSTER / "workerGroupSpecs" / index / "minReplicas"
        low, high = (integer(group.get(key)) for key in ("minReplicas", "maxReplicas"))
        if low is not None and high is not None and low > high:
            yield Hit(at, f"minReplicas {low} is more than maxReplicas {high}")


_ENDS = ("onSuccess", "onFailure")


@warning("TW812")
def ray_cluster_outlives_job(subject: Subject) -> Iterator[Hit]:
    spec = subject.spec
    strategy = mapping(spec.get("deletionStrategy"))
    policies = {text(dig(strategy, end, "policy")) for end in _ENDS}
    ends = {"DeleteCluster", "DeleteSelf"}
    before = text(spec.get("deletionPolicy")) in ends  # until KubeRay 1.4
    deleted = strategy.get("deletionRules") or policies <= ends or before
    if spec.get("rayClusterSpec") and not spec.get("shutdownAfterJobFinishes") and not deleted:
        yield Hit("/spec", "its cluster stays when the program has ended")


@error("TW813")
def rayjob_not_queueable(subject: Subject) -> Iterator[Hit]:
    spec = subject.spec
    if QUEUE_LABEL not in mapping(subject.metadata.get("labels")):
        return
    if spec.get("clusterSelector"):
        yield Hit("/spec/clusterSelector", "a cluster that is there already is in no queue")
    elif not spec.get("shutdownAfterJobFinishes"):
        yield Hit("/spec", "shutdownAfterJobFinishes is not true")
    if _cluster(subject).get("enableInTreeAutoscaling") is True and not _is_elastic(subject):
        at = CLUSTER / "enableInTreeAutoscaling"
        yield Hit(at, "a queue gives the whole cluster at once, and it requests nodes as it goes")
    for index, group in enumerate(mappings(_cluster(subject).get("workerGroupSpecs"))):
        if group.get("groupName") == "head":
            yield Hit(
                CLUSTER / "workerGroupSpecs" / index / "groupName",
                'to Kueue "head" is the head, and no group of workers',
            )


def _is_elastic(subject: Subject) -> bool:
    """Whether Kueue counts the nodes anew as they come and go."""
    return mapping(subject.metadata.get("annotations")).get(ELASTIC) == "true"


@warning("TW814")
def rayjob_deletes_itself(subject: Subject) -> Iterator[Hit]:
    spec, at = subject.spec, Pointer("/spec/deletionStrategy")
    strategy = mapping(spec.get("deletionStrategy"))
    policies = {at / end / "policy": dig(strategy, end, "policy") for end in _ENDS}
    policies[Pointer("/spec/deletionPolicy")] = spec.get("deletionPolicy")  # until KubeRay 1.4
    for index, rule in enumerate(mappings(strategy.get("deletionRules"))):
        policies[at / "deletionRules" / index / "policy"] = rule.get("policy")
    for pointer, policy in policies.items():
        if policy == "DeleteSelf":
            yield Hit(pointer, "the policy is DeleteSelf")


RULES = defined_in(globals())
