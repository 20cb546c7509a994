"""What the API server refuses of volumes and of the claims that become volumes, type by type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.pointer import Pointer
from trainwright.objects import forms
from trainwright.objects.forms import is_template
from trainwright.rules.api_server.references import IN_FILES, field_of
from trainwright.rules.field_checks import (
    Check,
    Problem,
)


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


def _sources(body: Mapping[str, Data]) -> Iterator[Problem]:
    """Yield a problem if dataSource and dataSourceRef, which both name a claim's source, differ."""
    old, new = body.get("dataSource"), body.get("dataSourceRef")
    if old is not None and new is not None and old != new:
        yield Pointer("/dataSource"), "dataSource and dataSourceRef differ"


def _only_described(body: Mapping[str, Data]) -> Iterator[Problem]:
    """The metadata of a claim that each pod gets: its name is made."""
    for key, value in mapping(body.get("metadata")).items():
        if key not in ("labels", "annotations") and value not in (None, "", {}, []):
            yield Pointer.of("metadata", key), f"{key} is made for each pod, and cannot be set"
    for key, value in mapping(dig(body, "metadata", "labels")).items():
        problem = forms.key_problem(str(key)) or forms.VALUE.problem(text(value))
        if problem:
            yield Pointer.of("metadata", "labels", str(key)), f'{key}: "{value}" {problem}'


def _registry(body: Mapping[str, Data]) -> Iterator[Problem]:
    registry = text(body.get("registry"))
    pairs = registry.split(",") if registry and not is_template(registry) else ()
    if any(not _PAIR.fullmatch(pair) for pair in pairs):
        at = Pointer("/registry")
        yield at, f'registry: "{registry}" is not host:port, or several with commas between them'
    if len(text(body.get("tenant"))) > _TENANT:
        yield Pointer("/tenant"), f"tenant can have {_TENANT} characters"


_PAIR = re.compile(r"(?:\[[^][]*\]|[^][:]*):[^][:]*")
_TENANT = 64


def _fibre_channel(body: Mapping[str, Data]) -> Iterator[Problem]:
    if body.get("targetWWNs") and body.get("lun") is None:
        yield Pointer(), "targetWWNs need a lun"


def _chap(body: Mapping[str, Data]) -> Iterator[Problem]:
    chap = True in (body.get("chapAuthDiscovery"), body.get("chapAuthSession"))
    if chap and body.get("secretRef") is None:
        yield Pointer(), "CHAP needs a secretRef"


def _disk_uri(body: Mapping[str, Data]) -> Iterator[Problem]:
    kind, uri = body.get("kind"), text(body.get("diskURI"))
    begin = "/subscriptions/" if kind == "Managed" else "https://"
    if kind is not None and not uri.startswith(begin) and not is_template(uri):
        yield Pointer("/diskURI"), f'diskURI: "{uri}" of kind {kind} begins with {begin}'


def _options(body: Mapping[str, Data]) -> Iterator[Problem]:
    for key in mapping(body.get("options")):
        domain = "." + str(key).partition("/")[0].lower()
        if "/" in str(key) and domain.endswith((".kubernetes.io", ".k8s.io")):
            yield Pointer.of("options", key), f"{key}: the domain is reserved"


def _certificate(body: Mapping[str, Data]) -> Iterator[Problem]:
    if not any(body.get(field) for field in _CERTIFICATE_FILES):
        yield Pointer(), f"there is none of {', '.join(_CERTIFICATE_FILES)}"
    for key in mapping(body.get("userAnnotations")):
        if problem := forms.key_problem(str(key).lower()):
            yield Pointer.of("userAnnotations", key), f'the key "{key}" {problem}'
    size = sum(
        len(f"{k}{text(v)}".encode()) for k, v in mapping(body.get("userAnnotations")).items()
    )
    if size > _USER_ANNOTATIONS:
        at = Pointer("/userAnnotations")
        yield at, f"userAnnotations have {size} bytes, and can have {_USER_ANNOTATIONS}"


_CERTIFICATE_FILES = ("credentialBundlePath", "keyPath", "certificateChainPath")
_USER_ANNOTATIONS = 256 * 1024


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
    for field in _CERTIFICATE_FILES:
        if path := text(dig(source, "podCertificate", field)):
            yield Pointer.of("podCertificate", field), path


def _file_of_pod(body: Mapping[str, Data]) -> Iterator[Problem]:
    if body.get("resourceFieldRef") and not dig(body, "resourceFieldRef", "containerName"):
        yield Pointer("/resourceFieldRef"), "a file needs the containerName of its resource"


def _named_secret(field: str) -> Check:
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        if body.get(field) is not None and not dig(body, field, "name"):
            yield Pointer.of(field), f"{field} has no name"

    return check


CHECKS: Mapping[str, tuple[Check, ...]] = {
    "DownwardAPIVolumeFile": (field_of(*IN_FILES), _file_of_pod),
    "ProjectedVolumeSource": (_projected,),
    "PersistentVolumeClaimSpec": (_claims, _sources),
    "PersistentVolumeClaimTemplate": (_only_described,),
    "CSIVolumeSource": (_named_secret("nodePublishSecretRef"),),
    "AzureDiskVolumeSource": (_disk_uri,),
    "FCVolumeSource": (_fibre_channel,),
    "FlexVolumeSource": (_options,),
    "ISCSIVolumeSource": (_chap,),
    "PodCertificateProjection": (_certificate,),
    "QuobyteVolumeSource": (_registry,),
}
CHECKS_BY_MINOR: Mapping[str, tuple[Callable[[int], Check], ...]] = {}
