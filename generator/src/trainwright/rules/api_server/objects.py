"""What the API server refuses of Jobs, Services, ConfigMaps, Secrets and quotas, type by type."""

from __future__ import annotations

import binascii
import ipaddress
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, integer, mapping, mappings, sequence, text
from trainwright.datatypes.pointer import Pointer
from trainwright.objects import forms
from trainwright.objects.forms import is_template
from trainwright.rules.field_checks import (
    Check,
    Problem,
    addresses,
    one_word,
)

# --- Jobs ----------------------------------------------------------------------------------------

_MANY = 100_000  # indexes, from which on failures of single ones are bounded
_FEW = 10_000


def _indexed(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield problems of the indexes of a Job that is Indexed."""
    if body.get("completionMode") != "Indexed":
        return
    completions, failed = integer(body.get("completions")), integer(body.get("maxFailedIndexes"))
    if body.get("completions") is None:
        yield Pointer("/completionMode"), "completionMode: Indexed needs completions"
    most = {"parallelism": _MANY, "maxFailedIndexes": _MANY}
    if (completions or 0) > _MANY and body.get("backoffLimitPerIndex") is not None:
        most = {"parallelism": _FEW, "maxFailedIndexes": _FEW}
        if failed is None:
            yield Pointer("/completions"), f"over {_MANY} completions need maxFailedIndexes"
    if completions is not None:
        most["maxFailedIndexes"] = min(completions, most["maxFailedIndexes"])
    for field, limit in most.items():
        if (integer(body.get(field)) or 0) > limit:
            yield Pointer.of(field), f"{field} is {body[field]}, and can be {limit} here"


def _failed_indexes(body: Mapping[str, Data]) -> Iterator[Problem]:
    if body.get("maxFailedIndexes") is not None and body.get("backoffLimitPerIndex") is None:
        yield Pointer("/maxFailedIndexes"), "maxFailedIndexes needs backoffLimitPerIndex"


def _failure_policy(body: Mapping[str, Data]) -> Iterator[Problem]:
    """A policy about failed pods: of pods that are not started again, and of their containers."""
    if body.get("podFailurePolicy") is None:
        return
    if body.get("podReplacementPolicy") not in (None, "Failed"):
        yield (
            Pointer("/podReplacementPolicy"),
            "podFailurePolicy needs podReplacementPolicy: Failed",
        )
    pod = mapping(dig(body, "template", "spec"))
    if pod.get("restartPolicy") == "OnFailure":
        at = Pointer("/template/spec/restartPolicy")
        yield at, "podFailurePolicy needs restartPolicy: Never"
    names = {item.get("name") for key in _CONTAINERS for item in mappings(pod.get(key))}
    for index, rule in enumerate(mappings(dig(body, "podFailurePolicy", "rules"))):
        at = Pointer.of("podFailurePolicy", "rules", index)
        container = dig(rule, "onExitCodes", "containerName")
        if container is not None and container not in names:
            yield at / "onExitCodes" / "containerName", f'there is no container "{container}"'
        if rule.get("action") == "FailIndex" and body.get("backoffLimitPerIndex") is None:
            yield at / "action", "action: FailIndex needs backoffLimitPerIndex"


_CONTAINERS = ("containers", "initContainers")


def _selects_its_pods(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield labels of a Job's selector that its pods have not; some the server adds to both."""
    labels = mapping(dig(body, "spec", "template", "metadata", "labels"))
    for key, value in mapping(dig(body, "spec", "selector", "matchLabels")).items():
        at = Pointer.of("spec", "selector", "matchLabels", str(key))
        if key in labels and labels[key] != value:
            message = f"selector has {key}: {value}, and the labels of the pods {key}: "
            yield at, f"{message}{labels[key]}"
        elif key not in labels and str(key).rpartition("/")[2] not in _ADDED:
            yield at, f"selector has {key}: {value}, which the pods do not have"


_ADDED = ("controller-uid", "job-name")


def _success_policy(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Indexes that a Job has, as many as it has."""
    completions = integer(body.get("completions"))
    for index, rule in enumerate(mappings(dig(body, "successPolicy", "rules"))):
        at = Pointer.of("successPolicy", "rules", index)
        indexes = rule.get("succeededIndexes")
        count_and_last = None if indexes is None else _indexes(text(indexes))
        if indexes is not None and count_and_last is None:
            message = f'succeededIndexes: "{indexes}" is not numbers and ranges, as 0-3,7'
            yield at / "succeededIndexes", message
        elif count_and_last and completions is not None and count_and_last[1] >= completions:
            message = (
                f"succeededIndexes has {count_and_last[1]}, and the last index is {completions - 1}"
            )
            yield at / "succeededIndexes", message
        most = count_and_last[0] if count_and_last else completions
        if most is not None and (integer(rule.get("succeededCount")) or 0) > most:
            message = f"succeededCount is {rule['succeededCount']}, and can be {most}"
            yield at / "succeededCount", message


def _indexes(written: str) -> tuple[int, int] | None:
    """How many indexes a list of numbers and ranges has, and the last; they go upwards."""
    count, last = 0, -1
    for part in written.split(",") if _LIST.fullmatch(written) else ("-1",):
        low, _, high = part.partition("-")
        if not low or int(low) <= last or (high and int(high) < int(low)):
            return None
        count += int(high or low) - int(low) + 1
        last = int(high or low)
    return count, last


_LIST = re.compile(r"[0-9]{1,7}(?:-[0-9]{1,7})?(?:,[0-9]{1,7}(?:-[0-9]{1,7})?)*")


def _exit_codes(body: Mapping[str, Data]) -> Iterator[Problem]:
    values = [
        value for item in sequence(body.get("values")) if (value := integer(item)) is not None
    ]
    at = Pointer("/values")
    if values != sorted({*values}):
        yield at, "values go upwards, each once"
    if body.get("operator") == "In" and 0 in values:
        yield at / values.index(0), "an exit code of 0 is not a failure"


def _schedule(body: Mapping[str, Data]) -> Iterator[Problem]:
    schedule = text(body.get("schedule"))
    if not schedule or is_template(schedule):
        return
    if "TZ" in schedule:
        yield Pointer("/schedule"), f'schedule: "{schedule}" has a time zone: that is timeZone'
    elif not schedule.startswith("@") and len(schedule.split()) != _CRON_FIELDS:
        yield Pointer("/schedule"), f'schedule: "{schedule}" has not five fields, as 0 3 * * *'


_CRON_FIELDS = 5


def _job_of_a_schedule(body: Mapping[str, Data]) -> Iterator[Problem]:
    at = Pointer("/jobTemplate/spec")
    for field in ("selector", "manualSelector"):
        if dig(body, "jobTemplate", "spec", field):
            yield at / field, f"{field} is made for each Job, and cannot be set"


# --- Services ------------------------------------------------------------------------------------


def _ports(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield unnamed ports among several, and node ports used twice or by the wrong Service type."""
    ports = mappings(body.get("ports"))
    seen = set()
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield Pointer.of("ports", index), "one of several ports, which need names"
        outer, protocol = integer(port.get("nodePort")), port.get("protocol") or "TCP"
        at = Pointer.of("ports", index, "nodePort")
        if outer and body.get("type") in (None, "", "ClusterIP", "ExternalName"):
            yield at, "nodePort needs type: NodePort or LoadBalancer"
        elif outer and (outer, protocol) in seen:
            yield at, f"nodePort {outer} is taken twice"
        seen.add((outer, protocol))


def _addresses_of_a_service(body: Mapping[str, Data]) -> Iterator[Problem]:
    cluster_ip, cluster_ips = body.get("clusterIP"), sequence(body.get("clusterIPs"))
    if cluster_ips and cluster_ips[0] != (cluster_ip or ""):
        message = f"the first of clusterIPs is the clusterIP, which is {cluster_ip or 'not set'}"
        yield Pointer("/clusterIPs"), message
    if body.get("type") == "ExternalName":
        for field in ("clusterIP", "clusterIPs"):
            if body.get(field) not in (None, "", []):
                yield Pointer.of(field), f"{field} and type: ExternalName exclude each other"
        if not body.get("externalName"):
            yield Pointer("/type"), "type: ExternalName needs an externalName"
    if "" in cluster_ips:
        yield Pointer("/clusterIPs"), "clusterIPs has an empty address"
    families = [text(family) for family in sequence(body.get("ipFamilies"))]
    if len(families) != len({*families}):
        yield Pointer("/ipFamilies"), "ipFamilies has one twice"
    else:
        yield from _of_families([text(ip) for ip in cluster_ips or [cluster_ip]], families)


def _of_families(cluster_ips: list[str], families: list[str]) -> Iterator[Problem]:
    """Yield addresses that are not of the family which has their place."""
    for address, family, place in zip(cluster_ips, families, ("first", "second"), strict=False):
        found = _family(address)
        if found and family in _FAMILIES.values() and found != family:
            message = f"clusterIP is {address}, which is not of {family}, the {place} of ipFamilies"
            yield Pointer("/ipFamilies"), message


_FAMILIES = {4: "IPv4", 6: "IPv6"}


def _family(address: str) -> str:
    """The family of an address; empty for what is none, such as None."""
    try:
        return _FAMILIES[ipaddress.ip_address(address).version]
    except ValueError:
        return ""


_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_MODE = "service.kubernetes.io/topology-mode"
_HINTS = "service.kubernetes.io/topology-aware-hints"


def _annotations_of_a_service(body: Mapping[str, Data]) -> Iterator[Problem]:
    given = mapping(dig(body, "metadata", "annotations"))
    at = Pointer("/metadata/annotations")
    ranges = text(given.get(_RANGES)).strip()
    if ranges and not dig(body, "spec", "loadBalancerSourceRanges"):
        for item in (one.strip() for one in ranges.split(",")):
            if not _is_range(item):
                yield at / _RANGES, f'{_RANGES}: "{item}" is not a range, as 10.0.0.0/8'
    hints, mode = given.get(_HINTS), given.get(_MODE)
    if hints is not None and mode is not None and hints != mode:
        yield at / _HINTS, f"{_HINTS} is {hints}, and {_MODE} {mode}: both have to be the same"


def _external_name(body: Mapping[str, Data]) -> Iterator[Problem]:
    name = text(body.get("externalName"))
    if name and (problem := forms.SUBDOMAIN.problem(name.removesuffix("."))):
        yield Pointer("/externalName"), f'externalName: "{name}" {problem}'


def _load_balancer(body: Mapping[str, Data]) -> Iterator[Problem]:
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges"):
        if body.get(field) not in (None, []) and body.get("type") != "LoadBalancer":
            yield Pointer.of(field), f"{field} needs type: LoadBalancer"
    for index, item in enumerate(sequence(body.get("loadBalancerSourceRanges"))):
        if isinstance(item, str) and not _is_range(item.strip()):
            at = Pointer.of("loadBalancerSourceRanges", index)
            yield at, f'loadBalancerSourceRanges: "{item}" is not a range, as 10.0.0.0/8'


def _is_range(value: str) -> bool:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return is_template(value)
    return "/" in value


def _selector(body: Mapping[str, Data]) -> Iterator[Problem]:
    for key, value in mapping(body.get("selector")).items():
        problem = forms.key_problem(str(key)) or forms.VALUE.problem(text(value))
        if problem:
            yield Pointer.of("selector", str(key)), f"{key} in selector {problem}"


# --- Pods -----------------------------------------------------------------------------------------

_LONGEST_NAME = 253
_MIRROR = "kubernetes.io/config.mirror"


def _claims_of_a_pod(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield problems of the claims that are made for a pod, whose names begin with its own."""
    pod, volumes = text(dig(body, "metadata", "name")), mappings(dig(body, "spec", "volumes"))
    ephemeral = [text(volume.get("name")) for volume in volumes if volume.get("ephemeral")]
    made = {f"{pod}-{name}": name for name in ephemeral if pod}
    for index, volume in enumerate(volumes):
        at = Pointer.of("spec", "volumes", index)
        claim = text(dig(volume, "persistentVolumeClaim", "claimName"))
        if claim in made:
            message = f"the claim {claim} is made for the volume {made[claim]}"
            yield at / "persistentVolumeClaim", f"{message}, and no other can name it"
    for claim, name in made.items():
        if len(claim) > _LONGEST_NAME:
            size = f"{len(claim)} characters, {len(claim) - _LONGEST_NAME} over {_LONGEST_NAME}"
            at = Pointer("/metadata/name")
            yield at, f"the name of the claim that is made for the volume {name} has {size}"


def _mirrors(body: Mapping[str, Data]) -> Iterator[Problem]:
    annotations = mapping(dig(body, "metadata", "annotations"))
    if _MIRROR in annotations and not dig(body, "spec", "nodeName"):
        yield Pointer("/metadata/annotations") / _MIRROR, f"{_MIRROR} needs spec.nodeName"


# --- ConfigMaps and Secrets ----------------------------------------------------------------------

_LARGEST = 2**20  # bytes


def _keys(*fields: str) -> Check:
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        for field in fields:
            for key in mapping(body.get(field)):
                if problem := forms.CONFIG_KEY.problem(str(key)):
                    yield Pointer.of(field, key), f'the key "{key}" {problem}'

    return check


def _config(body: Mapping[str, Data]) -> Iterator[Problem]:
    plain, binary = mapping(body.get("data")), mapping(body.get("binaryData"))
    for key in plain.keys() & binary.keys():
        yield Pointer.of("binaryData", key), f'data has the key "{key}", too'
    size = sum(len(text(value).encode()) for value in plain.values())
    yield from _too_large(size + sum(len(_decoded(value)) for value in binary.values()))


def _too_large(size: int) -> Iterator[Problem]:
    if size > _LARGEST:
        yield Pointer("/data"), f"data has {size} bytes, {size - _LARGEST} over {_LARGEST}"


def _decoded(value: Data) -> bytes:
    try:
        return b64decode(text(value))
    except (binascii.Error, ValueError):
        return b""


# The keys that a Secret of a type must have: all of some, or at least one of them.
_ALL_OF = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_BASIC, _BASIC_KEYS = "kubernetes.io/basic-auth", ("username", "password")
_TOKEN, _ACCOUNT = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"


def _secret(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield missing or malformed keys of a Secret's type, and excess size; values are not shown."""
    data = {key: _decoded(value) for key, value in mapping(body.get("data")).items()}
    data |= {key: text(value).encode() for key, value in mapping(body.get("stringData")).items()}
    kind = text(body.get("type"))
    for key in _ALL_OF.get(kind, ()):
        if key not in data:
            yield Pointer("/type"), f"type: {kind} needs the key {key}"
        elif "docker" in key and not _is_json(data[key]):
            yield Pointer("/type"), f"type: {kind} needs JSON in {key}"
    if kind == _BASIC and not {*_BASIC_KEYS} & data.keys():
        yield Pointer("/type"), f"type: {kind} needs the key {' or '.join(_BASIC_KEYS)}"
    if kind == _TOKEN and not dig(body, "metadata", "annotations", _ACCOUNT):
        yield Pointer("/type"), f"type: {kind} needs the annotation {_ACCOUNT}"
    yield from _too_large(sum(map(len, data.values())))


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return is_template(value.decode(errors="replace"))
    return True


# --- quotas --------------------------------------------------------------------------------------

_WHOLE = re.compile(r"pods|services(\..+)?|replicationcontrollers|resourcequotas|count/.+|secrets")
_AMOUNTS = ("cpu", "memory", "ephemeral-storage")
_COUNTED = (
    *("cpu", "memory", "ephemeral-storage", "requests.storage", "pods", "resourcequotas"),
    *("services", "services.nodeports", "services.loadbalancers", "replicationcontrollers"),
    *("secrets", "configmaps", "persistentvolumeclaims"),
    *(f"{of}.{what}" for of in ("requests", "limits") for what in _AMOUNTS),
)
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_SCOPES = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort"),
    *("PriorityClass", "CrossNamespacePodAffinity", "VolumeAttributesClass"),
)
_OPPOSITE = ({"Terminating", "NotTerminating"}, {"BestEffort", "NotBestEffort"})


def _quota(body: Mapping[str, Data]) -> Iterator[Problem]:
    for name, amount in mapping(body.get("hard")).items():
        number, at = quantity.read(amount), Pointer.of("hard", str(name))
        if not _is_counted(str(name)):
            yield at, f"{name} is not a valid resource of a quota"
        elif number is not None and number < 0:
            yield at, f"{name} is {amount}, and cannot be negative"
        elif number is not None and _WHOLE.fullmatch(str(name)) and number != int(number):
            yield at, f"{name} is {amount}, and is counted in whole numbers"
    scopes = {text(scope) for scope in sequence(body.get("scopes"))}
    for pair in _OPPOSITE:
        if pair <= scopes:
            yield Pointer("/scopes"), f"{' and '.join(sorted(pair))} exclude each other"


def _is_counted(resource: str) -> bool:
    """Whether a quota has a resource: that of a domain, or one of Kubernetes' own."""
    own = resource in _COUNTED or resource.startswith(_HUGE_PAGES)
    return own or "/" in resource or is_template(resource)


CHECKS: Mapping[str, tuple[Check, ...]] = {
    "JobSpec": (_indexed, _failed_indexes, _failure_policy, _success_policy),
    "Job": (_selects_its_pods,),
    "Pod": (_claims_of_a_pod, _mirrors),
    "Service": (_annotations_of_a_service,),
    "PodFailurePolicyOnExitCodesRequirement": (_exit_codes,),
    "CronJobSpec": (_schedule, _job_of_a_schedule),
    "ServiceSpec": (_ports, _addresses_of_a_service, _load_balancer, _selector, _external_name),
    "ConfigMap": (_keys("data", "binaryData"), _config),
    "Secret": (_keys("data", "stringData"), _secret),
    "ResourceQuotaSpec": (one_word("scopes", " ".join(_SCOPES), empty=False), _quota),
}
CHECKS_BY_MINOR: Mapping[str, tuple[Callable[[int], Check], ...]] = {
    "ServiceSpec": (addresses("externalIPs"), addresses("clusterIPs", "None")),
}
