"""Huge pages, and devices that drivers allocate to pods (DRA)."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes import quantity
from trainwright.datatypes.data import dig, mappings, text
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods.template import Container
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import upstream

_PAGES = "hugepages-"


@error("TW736", about=(_PAGES,), spec=Pointer("/resources/hugepages"), per_pod=True)
def invalid_huge_pages(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for container in template.containers:
            for name in sorted({*container.requests, *container.limits}):
                if text(name).startswith(_PAGES):
                    size = name.removeprefix(_PAGES)
                    spec = Pointer.of("resources", "hugepages", size)
                    for message in _mistakes(container, name, size):
                        yield Hit(f"{container.pointer}/resources", message, spec)


def _mistakes(container: Container, name: str, size: str) -> Iterator[str]:
    limit, request = container.limits.get(name), container.requests.get(name)
    if limit is None:
        yield f"{name} has no limit"
    elif request is not None and quantity.read(request) != quantity.read(limit):
        yield f"{name}: request {request}, limit {limit}, and both must be equal"
    amount, page = quantity.read(limit), quantity.read(size)
    if amount is not None and page and amount % page:
        yield f"{name}: {limit} is not a multiple of {size}"
    if not {"cpu", "memory"} & {*container.requests, *container.limits}:
        yield f"{name} without cpu or memory"


@error("TW737", about=("claims",), spec=Pointer("/resourceClaims"), per_pod=True)
def unknown_resource_claim(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        claims = {
            text(claim.get("name")) for claim in mappings(template.spec.get("resourceClaims"))
        }
        for container in () if template.partial else template.containers:
            for index, used in enumerate(mappings(dig(container.body, "resources", "claims"))):
                name = text(used.get("name"))
                if name not in claims:
                    pointer = f"{container.pointer}/resources/claims/{index}/name"
                    yield Hit(pointer, f'the container uses the claim "{name}", the pod has none')


_CLAIMS = upstream("kubernetes/device-claims")


@warning("TW738", about=("resourceClaims",), spec=Pointer("/resourceClaims"), per_pod=True)
def device_allocation_off(subject: Subject) -> Iterator[Hit]:
    version = subject.environment.kubernetes_version
    if _CLAIMS.is_on(version, subject.environment.kubernetes_features):
        return
    for template in subject.pod_templates:
        if mappings(template.spec.get("resourceClaims")):
            message = f"Kubernetes {version} allocates devices only with the gate {_CLAIMS.gate}"
            yield Hit(f"{template.pointer}/spec/resourceClaims", message)


RULES = defined_in(globals())
