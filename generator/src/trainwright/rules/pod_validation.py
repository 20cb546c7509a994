"""What the API server refuses of a pod and the schemas of Kubernetes do not say, type by type.

The facts are those of validation.go: a check here refuses nothing that it accepts.
https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from trainwright.datatypes import quantity
from trainwright.datatypes.model import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import dig, integer, mapping, mappings, sequence, text
from trainwright.objects import forms
from trainwright.pods.template import PodTemplate
from trainwright.rules.field_checks import (
    Check,
    Problem,
    absolute,
    address,
    at_most,
    at_most_one,
    between,
    distinct,
    each_between,
    exactly_one,
    file_inside,
    filled,
    formed,
    label_key,
    needed,
    not_negative,
    not_upwards,
    one_word,
    only_where,
    relative,
)
from trainwright.specs import kubernetes_schemas

_CORE = "io.k8s.api.core.v1."
_LAST = 2**31 - 1
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def problems(type_: str, body: Data, version: str) -> Iterator[Problem]:
    """What is refused in a value of a type ("PodSpec", "Container"), and where in it.

    The containers of a pod are not looked into: they may stand elsewhere.
    """
    yield from _walk(_named(type_), body, Pointer(), version)


def _walk(type_: str, body: Data, at: Pointer, version: str) -> Iterator[Problem]:
    if isinstance(body, list):
        for index, item in enumerate(body):
            yield from _walk(type_, item, at / index, version)
    elif isinstance(body, dict):
        for check in _checks(type_, version):
            for where, message in check(body):
                yield Pointer(at + where), message
        below = _fields(type_, version)
        for key, value in body.items():
            if isinstance(value, dict | list) and (type_of := below.get(key)):
                yield from _walk(type_of, value, at / key, version)


def _named(type_: str) -> str:
    return f"{_CORE}{type_}"


@cache
def _checks(type_: str, version: str) -> tuple[Check, ...]:
    minor = int(version.partition(".")[2])
    name = type_.rpartition(".")[2]
    return (*CHECKS.get(name, ()), *(check(minor) for check in CHECKS_BY_MINOR.get(name, ())))


@cache
def _fields(type_: str, version: str) -> Mapping[str, str]:
    """The fields of a type that hold mappings of another: which it is."""
    known = kubernetes_schemas.definitions(version)["$defs"]
    found = {}
    for key, schema in known.get(type_, {}).get("properties", {}).items():
        name = next(kubernetes_schemas.references(schema), "")
        if name and not (type_ == _named("PodSpec") and key in _CONTAINERS):
            found[key] = name
    return found


def annotation_problems(template: PodTemplate) -> Iterator[Problem]:
    """Annotations about containers that are not there."""
    names = {container.name for container in (*template.containers, *template.ephemeral)}
    for key in template.annotations:
        name = str(key).removeprefix(_APP_ARMOR)
        if str(key).startswith(_APP_ARMOR) and name not in names and not template.partial:
            yield Pointer.of("metadata", "annotations", key), f'there is no container "{name}"'


_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


# --- what no single field says -------------------------------------------------------------------


def _toleration(body: Mapping[str, Data]) -> Iterator[Problem]:
    operator = body.get("operator")
    if not body.get("key") and operator != "Exists":
        yield Pointer(), "a toleration without a key needs operator: Exists"
    if body.get("value") and operator == "Exists":
        yield Pointer("/value"), "operator: Exists compares no value"


def _requirement(body: Mapping[str, Data]) -> Iterator[Problem]:
    """What selects by a label: how many values its operator takes."""
    operator, values = body.get("operator"), sequence(body.get("values"))
    if operator in ("In", "NotIn") and not values:
        yield Pointer(), f"operator: {operator} needs values"
    if operator in ("Exists", "DoesNotExist") and values:
        yield Pointer("/values"), f"operator: {operator} compares no values"
    if operator in ("Gt", "Lt") and len(values) != 1:
        yield Pointer(), f"operator: {operator} needs one value, and has {len(values)}"


def _match_fields(body: Mapping[str, Data]) -> Iterator[Problem]:
    for index, item in enumerate(mappings(body.get("matchFields"))):
        at = Pointer.of("matchFields", index)
        if item.get("key") != "metadata.name":
            yield at / "key", f'matchFields know metadata.name, and not "{item.get("key")}"'
        if len(sequence(item.get("values"))) != 1:
            yield at, "a field is compared with one value"


def _match_labels(body: Mapping[str, Data]) -> Iterator[Problem]:
    for key, value in mapping(body.get("matchLabels")).items():
        problem = forms.key_problem(str(key))
        if problem:
            yield Pointer.of("matchLabels", str(key)), f'the key "{key}" {problem}'
        problem = forms.VALUE.problem(text(value))
        if problem:
            yield Pointer.of("matchLabels", str(key)), f'the value "{value}" of {key} {problem}'


def _spread(body: Mapping[str, Data]) -> Iterator[Problem]:
    selector = body.get("labelSelector")
    keys = sequence(body.get("matchLabelKeys"))
    if keys and selector is None:
        yield Pointer("/matchLabelKeys"), "matchLabelKeys needs a labelSelector"
    used = {*mapping(dig(selector, "matchLabels"))}
    used |= {text(one.get("key")) for one in mappings(dig(selector, "matchExpressions"))}
    for index, key in enumerate(map(text, keys)):
        if key in used:
            yield Pointer.of("matchLabelKeys", index), f'labelSelector has the key "{key}", too'


def _claims(body: Mapping[str, Data]) -> Iterator[Problem]:
    """The claim of a pod or a template: how it is mounted, and how much it asks for."""
    modes = sequence(body.get("accessModes"))
    if not modes:
        yield Pointer(), "there is no accessModes"
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield Pointer("/accessModes"), "ReadWriteOncePod excludes other accessModes"
    storage = dig(body, "resources", "requests", "storage")
    amount = quantity.read(storage)
    if storage is None:
        yield Pointer(), "there is no resources.requests.storage"
    elif amount is not None and amount <= 0:
        at = Pointer("/resources/requests/storage")
        yield at, f"storage is {storage}, and has to be more than 0"


def _projected(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Two sources that write the same file."""
    seen = set()
    for index, source in enumerate(mappings(body.get("sources"))):
        for at, path in _paths(source):
            if path in seen:
                yield Pointer(Pointer.of("sources", index) + at), f"{path} is there twice"
            seen.add(path)


def _paths(source: Mapping[str, Data]) -> Iterator[tuple[Pointer, str]]:
    for kind in ("secret", "configMap", "downwardAPI"):
        for index, item in enumerate(mappings(dig(source, kind, "items"))):
            if path := text(item.get("path")):
                yield Pointer.of(kind, "items", index, "path"), path
    if path := text(dig(source, "clusterTrustBundle", "path")):
        yield Pointer("/clusterTrustBundle/path"), path


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


_AMOUNTS = ("cpu", "memory", "ephemeral-storage")


def _resources(body: Mapping[str, Data]) -> Iterator[Problem]:
    for part in ("limits", "requests"):
        for name, amount in mapping(body.get(part)).items():
            at, number = Pointer.of(part, str(name)), quantity.read(amount)
            if number is not None and number < 0:
                yield at, f"{name} is {amount}, and cannot be negative"
            if forms.is_template(name):
                continue
            if not (name in _AMOUNTS or "/" in name or name.startswith("hugepages-")):
                known = "an extended resource has a domain, as nvidia.com/gpu"
                yield at, f'"{name}" is not a resource: {known}'
            elif problem := forms.key_problem(name):
                yield at, f'the resource "{name}" {problem}'
            elif "/" in name and number is not None and number != int(number):
                yield at, f"{name} is {amount}, and is counted in whole numbers"


_OF_POD = ("metadata.name", "metadata.namespace", "metadata.uid")
_IN_ENV = (
    "spec.host",  # as spec.nodeName was called
    *("spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs"),
    *("status.podIP", "status.podIPs"),
)
_IN_FILES = ("metadata.labels", "metadata.annotations")


def _field_of(*more: str) -> Check:
    """A field of the pod, which an environment or a file can have."""
    allowed = (*_OF_POD, *more)

    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        path = text(dig(body, "fieldRef", "fieldPath"))
        holder, bracket, key = path.partition("['")
        if path and path not in allowed and not (bracket and holder in _IN_FILES):
            where = Pointer("/fieldRef/fieldPath")
            yield where, f'fieldPath: "{path}" is not one of {", ".join(allowed)}'
        elif bracket and (problem := forms.key_problem(key.removesuffix("']").lower())):
            yield Pointer("/fieldRef/fieldPath"), f'the key of "{path}" {problem}'

    return check


def _resource_field(body: Mapping[str, Data]) -> Iterator[Problem]:
    resource = text(body.get("resource"))
    part, _, name = resource.partition(".")
    known = part in ("limits", "requests") and (name in _AMOUNTS or name.startswith("hugepages-"))
    if resource and not known:
        said = ", ".join(f"limits.{amount}" for amount in _AMOUNTS)
        yield Pointer("/resource"), f'resource: "{resource}" is not one of {said}, or of requests'
    divisor = quantity.read(body.get("divisor"))
    if known and divisor and not _is_divisor(str(body["divisor"]), name):
        unit = "1 or 1m" if name == "cpu" else "1, 1k, 1Ki, 1M, 1Mi, 1G, 1Gi and so on"
        yield Pointer("/divisor"), f"divisor is {body['divisor']}, and can be {unit}"


def _is_divisor(divisor: str, resource: str) -> bool:
    units = ("1", "1m") if resource == "cpu" else ("1", *_units("k"), *_units("Ki"))
    return any(quantity.read(divisor) == quantity.read(unit) for unit in units)


def _units(first: str) -> tuple[str, ...]:
    return (f"1{first}", *(f"1{letter}{first[1:]}" for letter in "MGTPE"))


def _file_of_pod(body: Mapping[str, Data]) -> Iterator[Problem]:
    if body.get("resourceFieldRef") and not dig(body, "resourceFieldRef", "containerName"):
        yield Pointer("/resourceFieldRef"), "a file needs the containerName of its resource"


def _host_ports(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Ports of the node: one container each, and with hostNetwork the same as inside."""
    seen = set()
    for index, container in enumerate(mappings(body.get("containers"))):
        for place, port in enumerate(mappings(container.get("ports"))):
            outer, at = (
                integer(port.get("hostPort")),
                Pointer.of("containers", index, "ports", place),
            )
            key = (outer, text(port.get("hostIP")), text(port.get("protocol")) or "TCP")
            if outer and key in seen:
                yield at / "hostPort", f"hostPort {outer} is taken twice"
            seen.add(key)
            if outer and body.get("hostNetwork") is True and outer != port.get("containerPort"):
                message = f"hostPort is {outer}, with hostNetwork it can only be the containerPort"
                yield at / "hostPort", message


def _search_list(body: Mapping[str, Data]) -> Iterator[Problem]:
    length = len(" ".join(map(str, sequence(body.get("searches")))))
    if length > _SEARCH_LENGTH:
        yield (
            Pointer("/searches"),
            f"searches has {length} characters, and can have {_SEARCH_LENGTH}",
        )


_SEARCH_LENGTH = 2048


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


_MODE = between("defaultMode", 0, 0o777)
_FILE_MODE = between("mode", 0, 0o777)
_IDS = (between("runAsUser", 0, _LAST), between("runAsGroup", 0, _LAST))
_KEYS = (needed("name"), formed("name", forms.SUBDOMAIN), formed("key", forms.CONFIG_KEY))
_WHOLE = (needed("name"), formed("name", forms.SUBDOMAIN))
_TOKEN = 2**32  # seconds

CHECKS: Mapping[str, tuple[Check, ...]] = {
    "PodSpec": (
        _has_containers,
        between("activeDeadlineSeconds", 1, _LAST),
        formed("nodeName", forms.SUBDOMAIN),
        _host_namespaces,
        _host_ports,
    ),
    "PodOS": (one_word("name", "linux windows"),),
    "PodSecurityContext": (
        *_IDS,
        between("fsGroup", 0, _LAST),
        each_between("supplementalGroups", 0, _LAST),
        one_word("fsGroupChangePolicy", "Always OnRootMismatch"),
        one_word("supplementalGroupsPolicy", "Merge Strict"),
        one_word("seLinuxChangePolicy", "MountOption Recursive"),
        distinct("sysctls", "name"),
    ),
    "SecurityContext": (*_IDS, _escalation),
    "SeccompProfile": (
        only_where("localhostProfile", "type", "Localhost", needed=True),
        relative("localhostProfile"),
    ),
    "AppArmorProfile": (only_where("localhostProfile", "type", "Localhost", needed=True),),
    "Sysctl": (formed("name", forms.SYSCTL),),
    "Toleration": (
        label_key("key"),
        formed("value", forms.VALUE),
        only_where("tolerationSeconds", "effect", "NoExecute"),
        _toleration,
    ),
    "HostAlias": (address("ip"), formed("hostnames", forms.SUBDOMAIN)),
    "PodDNSConfig": (
        at_most("nameservers", 3),
        address("nameservers"),
        at_most("searches", 32),
        formed("searches", forms.SEARCH),
        _search_list,
    ),
    "PodDNSConfigOption": (needed("name"),),
    "PodReadinessGate": (label_key("conditionType"),),
    "PodSchedulingGate": (label_key("name"),),
    "PodResourceClaim": (
        formed("name", forms.LABEL),
        exactly_one("resourceClaimName", "resourceClaimTemplateName"),
        formed("resourceClaimName", forms.SUBDOMAIN),
        formed("resourceClaimTemplateName", forms.SUBDOMAIN),
    ),
    # affinity and spreading
    "TopologySpreadConstraint": (
        between("maxSkew", 1),
        filled("topologyKey"),
        between("minDomains", 1),
        only_where("minDomains", "whenUnsatisfiable", "DoNotSchedule"),
        _spread,
    ),
    "NodeSelector": (filled("nodeSelectorTerms"),),
    "NodeSelectorTerm": (_match_fields,),
    "NodeSelectorRequirement": (label_key("key"), _requirement),
    "LabelSelector": (_match_labels,),
    "LabelSelectorRequirement": (
        label_key("key"),
        formed("values", forms.VALUE),
        _requirement,
    ),
    "PreferredSchedulingTerm": (between("weight", 1, 100),),
    "WeightedPodAffinityTerm": (between("weight", 1, 100),),
    "PodAffinityTerm": (
        filled("topologyKey"),
        label_key("topologyKey"),
        formed("namespaces", forms.LABEL),
    ),
    # containers
    "Container": (distinct("ports", "name"), _devices, _propagation),
    "ContainerPort": (between("containerPort", 1, 65535), between("hostPort", 0, 65535)),
    "ResourceRequirements": (_resources,),
    "EnvVarSource": (
        exactly_one(
            "fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"
        ),
        _field_of(*_IN_ENV),
    ),
    "ResourceFieldSelector": (_resource_field,),
    "ConfigMapKeySelector": _KEYS,
    "SecretKeySelector": _KEYS,
    "EnvFromSource": (exactly_one("configMapRef", "secretRef"),),
    "ConfigMapEnvSource": _WHOLE,
    "SecretEnvSource": _WHOLE,
    "VolumeMount": (
        filled("mountPath"),
        relative("subPath"),
        relative("subPathExpr"),
        at_most_one("subPath", "subPathExpr"),
        _read_only,
    ),
    "VolumeDevice": (filled("devicePath"), not_upwards("devicePath")),
    # volumes
    "HostPathVolumeSource": (filled("path"), not_upwards("path")),
    "NFSVolumeSource": (filled("server"), absolute("path")),
    "PersistentVolumeClaimVolumeSource": (filled("claimName"),),
    "ConfigMapVolumeSource": (needed("name"), _MODE),
    "SecretVolumeSource": (needed("secretName"), _MODE),
    "KeyToPath": (filled("key", "path"), file_inside("path"), _FILE_MODE),
    "DownwardAPIVolumeSource": (_MODE,),
    "DownwardAPIVolumeFile": (
        filled("path"),
        file_inside("path"),
        exactly_one("fieldRef", "resourceFieldRef"),
        _field_of(*_IN_FILES),
        _file_of_pod,
        _FILE_MODE,
    ),
    "ProjectedVolumeSource": (_MODE, _projected),
    "VolumeProjection": (
        at_most_one(
            "secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"
        ),
    ),
    "ConfigMapProjection": (needed("name"),),
    "SecretProjection": (needed("name"),),
    "ServiceAccountTokenProjection": (
        between("expirationSeconds", 600, _TOKEN),
        filled("path"),
        file_inside("path"),
    ),
    "ClusterTrustBundleProjection": (
        exactly_one("name", "signerName"),
        filled("path"),
        file_inside("path"),
    ),
    "EmptyDirVolumeSource": (not_negative("sizeLimit"),),
    "EphemeralVolumeSource": (needed("volumeClaimTemplate"),),
    "PersistentVolumeClaimSpec": (
        one_word("accessModes", "ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod"),
        _claims,
    ),
    "CSIVolumeSource": (filled("driver"),),
    "ImageVolumeSource": (
        needed("reference"),
        one_word("pullPolicy", "Always IfNotPresent Never"),
    ),
    "GitRepoVolumeSource": (filled("repository"), relative("directory")),
    "AzureDiskVolumeSource": (
        one_word("cachingMode", "None ReadOnly ReadWrite"),
        one_word("kind", "Dedicated Managed Shared"),
    ),
    "GCEPersistentDiskVolumeSource": (between("partition", 0, 255),),
    "AWSElasticBlockStoreVolumeSource": (between("partition", 0, 255),),
    "ISCSIVolumeSource": (between("lun", 0, 255),),
}
CHECKS_BY_MINOR: Mapping[str, tuple[Callable[[int], Check], ...]] = {
    "EnvVar": (_variable("name"),),
    "EnvFromSource": (_variable("prefix"),),
}
