"""Huge pages, and devices that drivers allocate to pods (DRA)."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes import quantity
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import dig, mappings, text
from trainwright.pods.template import Container
from trainwright.rule_model.rule import defined_in, error, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.upstream import upstream

_PAGES = "hugepages-"


_HUGE = "resources: {limits: {hugepages-2Mi: %s}}"


@error(
    id="TW736",
    summary="Huge pages are whole ones, requested as they are limited, beside cpu or memory.",
    effect="The API server refuses a Pod; anything else waits for pods that are refused.",
    remedy="Ask for a multiple of the page size, and for resources.memory.",
    by_hand="Set an equal limit, a multiple of the page size, and cpu or memory.",
    spec=Pointer("/resources/hugepages"),
    source="https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/",
    per_pod=True,
    passes=pod(_HUGE % "4Mi, memory: 1Gi"),
    fails=pod(_HUGE % "4Mi"),
)
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
    limit, asked = container.limits.get(name), container.requests.get(name)
    if limit is None:
        yield f"{name} has no limit"
    elif asked is not None and quantity.read(asked) != quantity.read(limit):
        yield f"{name}: request {asked}, limit {limit}, and both must be equal"
    amount, page = quantity.read(limit), quantity.read(size)
    if amount is not None and page and amount % page:
        yield f"{name}: {limit} is not a multiple of {size}"
    if not {"cpu", "memory"} & {*container.requests, *container.limits}:
        yield f"{name} without cpu or memory"


_CLAIM = "resources: {claims: [{name: nic}]}"


@error(
    id="TW737",
    summary="Every claim that a container uses is one of its pod's.",
    effect="The API server refuses a Pod; anything else waits for pods that are refused.",
    remedy="Add it to resourceClaims.",
    by_hand="Add it to spec.resourceClaims of the pod.",
    spec=Pointer("/resourceClaims"),
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
    per_pod=True,
    passes=pod(_CLAIM, ", resourceClaims: [{name: nic, resourceClaimName: a}]"),
    fails=pod(_CLAIM),
)
def unknown_resource_claim(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        known = {text(claim.get("name")) for claim in mappings(template.spec.get("resourceClaims"))}
        for container in () if template.partial else template.containers:
            for index, used in enumerate(mappings(dig(container.body, "resources", "claims"))):
                name = text(used.get("name"))
                if name not in known:
                    pointer = f"{container.pointer}/resources/claims/{index}/name"
                    yield Hit(pointer, f'the container uses the claim "{name}", the pod has none')


_CLAIMS = upstream("kubernetes/device-claims")


@warning(
    id="TW738",
    summary="Claims of devices are for Kubernetes 1.34 and later, or for a feature gate.",
    effect="Without the feature gate DynamicResourceAllocation the API server drops the claims, "
    "and the pods start without their devices.",
    remedy="Turn the gate on and declare it in kubernetes.features of environment.yaml, or ask for "
    "the devices in resources.extended.",
    by_hand="Turn the gate on, or ask for extended resources instead.",
    spec=Pointer("/resourceClaims"),
    source="https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/",
    per_pod=True,
    passes=pod(_CLAIM, ", resourceClaims: [{name: nic, resourceClaimName: a}]"),
    passes_in="kubernetes: {version: '1.34'}",
    fails=pod(_CLAIM, ", resourceClaims: [{name: nic, resourceClaimName: a}]"),
    fails_in="kubernetes: {version: '1.33'}",
)
def device_allocation_off(subject: Subject) -> Iterator[Hit]:
    version = subject.environment.kubernetes_version
    if _CLAIMS.is_on(version, subject.environment.kubernetes_features):
        return
    for template in subject.pod_templates:
        if mappings(template.spec.get("resourceClaims")):
            message = f"Kubernetes {version} allocates devices only with the gate {_CLAIMS.gate}"
            yield Hit(f"{template.pointer}/spec/resourceClaims", message)


RULES = defined_in(globals())
