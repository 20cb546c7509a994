"""What the API server refuses of a pod and its containers, type by type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, integer, mapping, mappings, sequence, text
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.objects import forms
from trainwright.objects.forms import Form
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.upstream import numbers, upstream
from trainwright.rules.api_server.references import AMOUNTS, IN_ENV, field_of, resource_field
from trainwright.rules.field_checks import (
    Check,
    Problem,
    about,
    addresses,
    formed,
    one_word,
)

_PROFILE = Form(
    "a seccomp profile",
    re.compile(r"runtime/default|docker/default|unconfined|localhost/(?!/)(?!(.*/)?\.\.(/|$)).+"),
    10**6,
)
SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_OF_CONTAINER, _APP_ARMOR = (
    "container.seccomp.security.alpha.kubernetes.io/",
    ("container.apparmor.security.beta.kubernetes.io/"),
)
# The forms of the annotations that the API server reads, by how their keys begin.
_ANNOTATIONS: Mapping[str, Form] = {
    SECCOMP_OF_POD: _PROFILE,
    SECCOMP_OF_CONTAINER: _PROFILE,
    _APP_ARMOR: Form(
        "a profile of AppArmor", re.compile(r"|runtime/default|unconfined|localhost/.*"), 10**6
    ),
    "controller.kubernetes.io/pod-deletion-cost": Form(
        "a whole number", re.compile(r"0|-?[1-9][0-9]{0,9}|\+?[1-9][0-9]{0,9}"), 11
    ),
}


# What annotations call the types of profiles that fields have.
_TYPES = {
    "unconfined": "Unconfined",
    "runtime/default": "RuntimeDefault",
    "docker/default": "RuntimeDefault",
    "localhost": "Localhost",
}


_OF_APP_ARMOR = "appArmorProfile"


def _contradiction(value: str, context: Mapping[str, Data], field: str) -> str:
    """Return a message if a field has another type of profile than an annotation; else empty."""
    said = _TYPES.get(value if value in _TYPES else value.partition("/")[0], "")
    written = text(dig(context, field, "type"))
    if said and said == written == "Localhost" and field == _OF_APP_ARMOR:
        said, written = value.partition("/")[2], text(dig(context, field, "localhostProfile"))
    differs = said and written and said != written
    return f"{field} is {written}: both have to be the same" if differs else ""


def annotation_problems(template: PodTemplate) -> Iterator[Problem]:
    """Yield annotations with invalid values, or about containers that do not exist."""
    annotations = template.annotations
    named = (*template.containers, *template.ephemeral) if annotations else ()
    names = {container.name for container in named}
    for key, value in annotations.items():
        at = Pointer.of("metadata", "annotations", key)
        name = str(key).removeprefix(_APP_ARMOR)
        if str(key).startswith(_APP_ARMOR) and name not in names and not template.partial:
            yield at, f'there is no container "{name}"'
        for begin, form in _ANNOTATIONS.items():
            if str(key).startswith(begin) and (problem := form.problem(text(value))):
                yield at, f'{key}: "{value}" {problem}'
        for context, field in _profiles(str(key), template):
            if problem := _contradiction(text(value), context, field):
                yield at, f'{key}: "{value}", and {problem}'


def _profiles(key: str, template: PodTemplate) -> Iterator[tuple[Mapping[str, Data], str]]:
    """Yield the security context that has what an annotation says as well, and its field."""
    of_pod = mapping(template.spec.get("securityContext"))
    if key == SECCOMP_OF_POD:
        yield of_pod, "seccompProfile"
    for container in template.containers:
        if key == f"{SECCOMP_OF_CONTAINER}{container.name}":
            yield container.security, "seccompProfile"
        elif key == f"{_APP_ARMOR}{container.name}":
            own = _OF_APP_ARMOR in container.security
            yield container.security if own else of_pod, _OF_APP_ARMOR


# --- what no single field says -------------------------------------------------------------------


def _toleration(body: Mapping[str, Data]) -> Iterator[Problem]:
    operator = body.get("operator")
    if not body.get("key") and operator != "Exists":
        yield Pointer(), "a toleration without a key needs operator: Exists"
    if body.get("value") and operator == "Exists":
        yield Pointer("/value"), "operator: Exists compares no value"
    value = text(body.get("value"))
    problem = (_number_problem if operator in ("Gt", "Lt") else forms.VALUE.problem)(value)
    if problem:
        yield Pointer("/value"), f'value: "{value}" {problem}'


def _number_problem(value: str) -> str:
    whole = _INT64.fullmatch(value) and -(2**63) <= int(value) < 2**63
    return "" if whole or forms.is_template(value) else "is not a whole number of 64 bits"


_INT64 = re.compile("0|-?[1-9][0-9]{0,18}")


def _requirement(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield problems of a requirement on labels: each operator takes a certain number of values."""
    operator, values = body.get("operator"), sequence(body.get("values"))
    if operator in ("In", "NotIn") and not values:
        yield Pointer(), f"operator: {operator} needs values"
    if operator in ("Exists", "DoesNotExist") and values:
        yield Pointer("/values"), f"operator: {operator} compares no values"
    if operator in ("Gt", "Lt") and len(values) != 1:
        yield Pointer(), f"operator: {operator} needs one value, and has {len(values)}"


@about("matchFields")
def _match_fields(body: Mapping[str, Data]) -> Iterator[Problem]:
    for index, item in enumerate(mappings(body.get("matchFields"))):
        at = Pointer.of("matchFields", index)
        if item.get("key") != "metadata.name":
            yield at / "key", f'matchFields know metadata.name, and not "{item.get("key")}"'
        if len(sequence(item.get("values"))) != 1:
            yield at, "a field is compared with one value"


@about("matchLabels")
def _match_labels(body: Mapping[str, Data]) -> Iterator[Problem]:
    for key, value in mapping(body.get("matchLabels")).items():
        problem = forms.key_problem(str(key))
        if problem:
            yield Pointer.of("matchLabels", str(key)), f'the key "{key}" {problem}'
        problem = forms.VALUE.problem(text(value))
        if problem:
            yield Pointer.of("matchLabels", str(key)), f'the value "{value}" of {key} {problem}'


@about("matchLabelKeys")
def _match_label_keys(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield invalid label keys whose values the server takes from the pod into a selector."""
    selector = body.get("labelSelector")
    keys = sequence(body.get("matchLabelKeys"))
    other = sequence(body.get("mismatchLabelKeys"))
    if keys and selector is None:
        yield Pointer("/matchLabelKeys"), "matchLabelKeys needs a labelSelector"
    for index, key in enumerate(map(text, keys)):
        if _is_selected(selector, key):
            yield Pointer.of("matchLabelKeys", index), f'labelSelector has the key "{key}", too'
        if key in other:
            yield Pointer.of("matchLabelKeys", index), f'mismatchLabelKeys has "{key}", too'


def _is_selected(selector: Data, key: str) -> bool:
    """Whether a selector has a key otherwise than the server itself adds it: once, with In."""
    said = [
        expression
        for expression in mappings(dig(selector, "matchExpressions"))
        if expression.get("key") == key
    ]
    added = len(said) == 1 and said[0].get("operator") == "In"
    return key in mapping(dig(selector, "matchLabels")) or bool(said and not added)


@about("requiredDuringSchedulingIgnoredDuringExecution")
def _required_values(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield invalid label values in required node affinity, which older versions accepted."""
    required = Pointer("/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")
    for term, body_of_term in enumerate(mappings(lookup(body, required))):
        for index, expression in enumerate(mappings(body_of_term.get("matchExpressions"))):
            for at, message in _LABEL_VALUES(expression):
                yield Pointer(required / term / "matchExpressions" / index + at), message


_LABEL_VALUES = formed("values", forms.VALUE)


@about("allowPrivilegeEscalation")
def _escalation(body: Mapping[str, Data]) -> Iterator[Problem]:
    if body.get("allowPrivilegeEscalation") is not False:
        return
    at = Pointer("/allowPrivilegeEscalation")
    if body.get("privileged") is True:
        yield at, "allowPrivilegeEscalation: false and privileged: true exclude each other"
    if {"CAP_SYS_ADMIN"} & set(map(str, sequence(dig(body, "capabilities", "add")))):
        yield at, "allowPrivilegeEscalation: false and CAP_SYS_ADMIN exclude each other"


_IPC = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def _has_containers(body: Mapping[str, Data]) -> Iterator[Problem]:
    if body.get("containers") == []:  # the schema refuses null, and a list that is not there
        yield Pointer("/containers"), "a pod has at least one container"


@about("hostNetwork", "hostIPC", "hostPID")
def _host_namespaces(body: Mapping[str, Data]) -> Iterator[Problem]:
    shared = [name for name in ("hostNetwork", "hostIPC", "hostPID") if body.get(name) is True]
    if body.get("shareProcessNamespace") is True and "hostPID" in shared:
        yield (
            Pointer("/shareProcessNamespace"),
            "shareProcessNamespace and hostPID exclude each other",
        )
    if body.get("hostUsers") is False and shared:
        yield Pointer.of(shared[0]), f"hostUsers: false and {shared[0]} exclude each other"
    for index, sysctl in enumerate(mappings(dig(body, "securityContext", "sysctls"))):
        name = text(sysctl.get("name")).replace("/", ".")
        taken = "hostNetwork" if name.startswith("net.") else ""
        taken = "hostIPC" if name.startswith(_IPC) else taken
        if taken in shared:
            at = Pointer.of("securityContext", "sysctls", index, "name")
            yield at, f"{name} is the node's with {taken}: true"


_MOUNTED_BY_PATH = "a volume that is a device is a claim (persistentVolumeClaim or ephemeral)"


def _having(
    wanted: str, body: Mapping[str, Data]
) -> Iterator[tuple[Pointer, Mapping[str, Data], bool]]:
    """Yield the position and body of each container with a field, and whether the container ends
    before the others start.
    """
    for field in ("containers", "initContainers"):
        for index, container in enumerate(mappings(body.get(field))):
            if wanted in container:
                ends = field == "initContainers" and container.get("restartPolicy") != "Always"
                yield _at(field, index), container, ends


_at = lru_cache(maxsize=256)(Pointer.of)


def _block_devices(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield block devices of containers whose volume cannot be one, as it is not a claim."""
    for at, container, _ in _having("volumeDevices", body):
        volumes = {text(item.get("name")): item for item in mappings(body.get("volumes"))}
        for index, device in enumerate(mappings(container.get("volumeDevices"))):
            volume = volumes.get(text(device.get("name")))
            if volume is not None and not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
                where = at / "volumeDevices" / index / "name"
                yield where, f'"{device.get("name")}" is not a device: {_MOUNTED_BY_PATH}'


def _resizing(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield resize policies of containers that end, or with restarts in a pod that has none."""
    for at, container, ends in _having("resizePolicy", body):
        policies = mappings(container.get("resizePolicy"))
        if policies and ends:
            yield at / "resizePolicy", "resizePolicy is for containers that run, and this one ends"
        for index, policy in enumerate(policies):
            again = policy.get("restartPolicy") == "RestartContainer"
            if again and body.get("restartPolicy") == "Never":
                message = "RestartContainer needs a pod with a restartPolicy other than Never"
                yield at / "resizePolicy" / index / "restartPolicy", message


def _container_restarts(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield each restartPolicy that containers could not have before restart rules."""
    for at, container, _ in _having("restartPolicy", body):
        policy, init = container.get("restartPolicy"), at.parts[0] == "initContainers"
        if policy is not None and not (init and policy == "Always"):
            has = "can only be Always" if init else "is for sidecars, which are initContainers"
            yield at / "restartPolicy", f'restartPolicy: "{policy}" {has}'


@about("overhead")
def _overhead(body: Mapping[str, Data]) -> Iterator[Problem]:
    if body.get("overhead") and not body.get("runtimeClassName"):
        yield Pointer("/overhead"), "overhead is that of a RuntimeClass, and needs runtimeClassName"


@about("resources")
def _whole_pod(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield pod-level resources that cannot be, or are less than those of the containers."""
    for kind in ("requests", "limits"):
        for name, amount in mapping(dig(body, "resources", kind)).items():
            at = Pointer.of("resources", kind, name)
            if name not in ("cpu", "memory") and not str(name).startswith("hugepages-"):
                yield at, f"{name} is for containers: a pod as a whole has cpu, memory, huge pages"
                continue
            has, wanted = quantity.read(amount), _of_containers(body, kind, name)
            if has is not None and wanted > has:
                yield at, f"{name} is {amount}, and its containers have {wanted.normalize():f}"


def _of_containers(body: Mapping[str, Data], kind: str, name: str) -> Decimal:
    """The sum of the requests of containers that run together, or the greatest of their limits."""
    quantities = [
        quantity.read(dig(container, "resources", kind, name))
        for container in mappings(body.get("containers"))
    ]
    amounts = [amount for amount in quantities if amount is not None] or [Decimal(0)]
    return sum(amounts, Decimal(0)) if kind == "requests" else max(amounts)


@about("hostnameOverride")
def _host_name(body: Mapping[str, Data]) -> Iterator[Problem]:
    override = body.get("hostnameOverride")
    if override is None:
        return
    at = Pointer("/hostnameOverride")
    problem = _HOST_NAME.problem(text(override))
    if problem:
        yield at, f'hostnameOverride: "{override}" {problem}'
    for other in ("setHostnameAsFQDN", "hostNetwork"):
        if body.get(other) is True:
            yield at, f"hostnameOverride and {other}: true exclude each other"


_HOST_NAME = Form(forms.SUBDOMAIN.called, forms.SUBDOMAIN.pattern, 64)


def _of_windows(body: Mapping[str, Data]) -> Iterator[Problem]:
    system = dig(body, "os", "name")
    if system == "windows" and body.get("resources") is not None:
        yield Pointer("/resources"), "resources of a whole pod are for Linux, and os is windows"
    for at, container, _ in _having("lifecycle", body):
        signal = dig(container, "lifecycle", "stopSignal")
        if signal is None:
            continue
        where = at / "lifecycle" / "stopSignal"
        if not system:
            yield where, "stopSignal needs os.name"
        elif system == "windows" and signal not in _WINDOWS_SIGNALS:
            yield where, f'stopSignal: "{signal}" is not one of {" and ".join(_WINDOWS_SIGNALS)}'


_WINDOWS_SIGNALS = ("SIGKILL", "SIGTERM")


@about("restartPolicyRules")
def _restart_rules(body: Mapping[str, Data]) -> Iterator[Problem]:
    if sequence(body.get("restartPolicyRules")) and body.get("restartPolicy") is None:
        yield Pointer("/restartPolicyRules"), "restartPolicyRules need a restartPolicy beside them"


def _resources(body: Mapping[str, Data]) -> Iterator[Problem]:
    for part in ("limits", "requests"):
        for name, amount in mapping(body.get(part)).items():
            number = quantity.read(amount)
            if number is not None and number < 0:
                yield Pointer.of(part, str(name)), f"{name} is {amount}, and cannot be negative"
            if problem := _resource_problem(name):
                yield Pointer.of(part, str(name)), problem
            elif number is not None and _is_counted(name) and number != int(number):
                message = f"{name} is {amount}, and is counted in whole numbers"
                yield Pointer.of(part, str(name)), message


def _is_counted(name: str) -> bool:
    return "/" in name and not forms.is_template(name)


@lru_cache(maxsize=1024)
def _resource_problem(name: str) -> str:
    if forms.is_template(name):
        return ""
    if not (name in AMOUNTS or "/" in name or name.startswith("hugepages-")):
        expected = "an extended resource has a domain, as nvidia.com/gpu"
        return f'"{name}" is not a resource: {expected}'
    problem = forms.key_problem(name)
    return problem and f'the resource "{name}" {problem}'


def _host_ports(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield host ports that are taken twice or, with hostNetwork, are not the container's port."""
    seen = set()
    for index, container in enumerate(mappings(body.get("containers"))):
        for place, port in enumerate(mappings(container.get("ports"))):
            outer = integer(port.get("hostPort"))
            if not outer:
                continue
            at = Pointer.of("containers", index, "ports", place)
            key = (outer, text(port.get("hostIP")), text(port.get("protocol")) or "TCP")
            if key in seen:
                yield at / "hostPort", f"hostPort {outer} is taken twice"
            seen.add(key)
            if body.get("hostNetwork") is True and outer != port.get("containerPort"):
                message = f"hostPort is {outer}, with hostNetwork it can only be the containerPort"
                yield at / "hostPort", message


@about("searches")
def _search_list(body: Mapping[str, Data]) -> Iterator[Problem]:
    length = len(" ".join(map(str, sequence(body.get("searches")))))
    if length > _SEARCH_LENGTH:
        yield (
            Pointer("/searches"),
            f"searches has {length} characters, and can have {_SEARCH_LENGTH}",
        )


_SEARCH_LENGTH = 2048


@about("volumeDevices")
def _devices(body: Mapping[str, Data]) -> Iterator[Problem]:
    """A volume is a device of a container or mounted in it."""
    mounts = mappings(body.get("volumeMounts"))
    names = {text(mount.get("name")) for mount in mounts}
    paths = {text(mount.get("mountPath")) for mount in mounts}
    for index, device in enumerate(mappings(body.get("volumeDevices"))):
        if (name := text(device.get("name"))) in names:
            at = Pointer.of("volumeDevices", index, "name")
            yield at, f'"{name}" is mounted, and cannot be a device, too'
        if (path := text(device.get("devicePath"))) in paths:
            at = Pointer.of("volumeDevices", index, "devicePath")
            yield at, f"a volume is mounted at {path}"


def _propagation(body: Mapping[str, Data]) -> Iterator[Problem]:
    privileged = dig(body, "securityContext", "privileged") is True
    for index, mount in enumerate(mappings(body.get("volumeMounts"))):
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            at = Pointer.of("volumeMounts", index, "mountPropagation")
            yield at, "mountPropagation: Bidirectional needs a privileged container"


@about("recursiveReadOnly")
def _read_only(body: Mapping[str, Data]) -> Iterator[Problem]:
    recursive = body.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible") and body.get("readOnly") is not True:
        yield Pointer("/recursiveReadOnly"), f"recursiveReadOnly: {recursive} needs readOnly: true"


# --- what a version changed ----------------------------------------------------------------------

# RelaxedEnvironmentVariableValidation and RelaxedDNSSearchValidation are on by default since.
# https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/
_RELAXED = 32


def _variable(field: str) -> Callable[[int], Check]:
    return lambda minor: formed(field, forms.ANY_VARIABLE if minor >= _RELAXED else forms.VARIABLE)


_RULES = numbers(upstream("kubernetes/container-restart-rules").since)[1]
_REQUIRED = numbers(upstream("kubernetes/values-of-required-node-affinity").since)[1]
_WHOLE_POD = numbers(upstream("kubernetes/resources-of-pods").since)[1]


def _from(first: int, check: Check) -> Callable[[int], Check]:
    return lambda minor: check if minor >= first else _nothing


def _until(first: int, check: Check) -> Callable[[int], Check]:
    return lambda minor: check if minor < first else _nothing


def _nothing(_body: Mapping[str, Data]) -> Iterator[Problem]:
    return iter(())


CHECKS: Mapping[str, tuple[Check, ...]] = {
    "PodSpec": (
        _has_containers,
        _host_namespaces,
        _host_ports,
        _block_devices,
        _resizing,
        _overhead,
        _host_name,
        _of_windows,
    ),
    "SecurityContext": (_escalation,),
    "Toleration": (_toleration,),
    "PodDNSConfig": (_search_list,),
    "TopologySpreadConstraint": (_match_label_keys,),
    "NodeSelectorTerm": (_match_fields,),
    "NodeSelectorRequirement": (_requirement,),
    "LabelSelector": (_match_labels,),
    "LabelSelectorRequirement": (_requirement,),
    "PodAffinityTerm": (_match_label_keys,),
    "Container": (_devices, _propagation, _restart_rules),
    "ResourceRequirements": (_resources,),
    "EnvVarSource": (field_of(*IN_ENV),),
    "ResourceFieldSelector": (resource_field,),
    "VolumeMount": (_read_only,),
}
CHECKS_BY_MINOR: Mapping[str, tuple[Callable[[int], Check], ...]] = {
    "Container": (_from(_RULES, one_word("restartPolicy", "Always Never OnFailure", empty=False)),),
    "EnvVar": (_variable("name"),),
    "EnvFromSource": (_variable("prefix"),),
    "HostAlias": (addresses("ip"),),
    "NodeAffinity": (_from(_REQUIRED, _required_values),),
    "PodDNSConfig": (addresses("nameservers"),),
    "PodSpec": (_until(_RULES, _container_restarts), _from(_WHOLE_POD, _whole_pod)),
}
