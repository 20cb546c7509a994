"""Pods that the API server refuses, although the schemas of Kubernetes accept them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.model import CONTAINER_FIELDS, POD_FIELDS, spelled
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.tolerant import mapping, text
from trainwright.kinds import is_for_clusters
from trainwright.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, pod
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules import pod_validation

_SOURCE = (
    "https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/validation.go"
)
# Where a job has what a pod has, by the first field of it.
_OF_PODS: Mapping[str, Pointer] = {
    **{key: Pointer.of(spelled(name)) for name, key in POD_FIELDS.items()},
    "activeDeadlineSeconds": Pointer("/maxDuration"),
    "affinity": Pointer("/affinity"),
    "resourceClaims": Pointer("/resourceClaims"),
    "securityContext": Pointer("/security"),
    "terminationGracePeriodSeconds": Pointer("/gracePeriod"),
    "tolerations": Pointer("/tolerations"),
    "volumes": Pointer("/volumes"),
}
_OF_CONTAINERS: Mapping[str, Pointer] = {
    **{key: Pointer.of(spelled(name)) for name, key in CONTAINER_FIELDS.items()},
    "env": Pointer("/env"),
    "envFrom": Pointer("/envFrom"),
    "ports": Pointer("/metrics/port"),
    "resources": Pointer("/resources"),
    "securityContext": Pointer("/security"),
    "volumeMounts": Pointer("/volumes"),
}
# Lists of a pod that a job has by name; and those to which a pool adds items of its own.
_BY_NAME = ("volumes", "volumeMounts", "env", "resourceClaims")
_MIXED = ("tolerations", "ports", "envFrom")


@error(
    id="TW739",
    summary="Fields of pods have values that the API server accepts, also where no schema has "
    "them.",
    effect="The API server refuses a Pod, a Deployment and a Job; anything else is accepted and "
    "waits for pods that are refused.",
    remedy="Correct the value.",
    spec=Pointer("/name"),
    source=_SOURCE,
    per_pod=True,
    passes=pod("ports: [{name: http, containerPort: 8080}]"),
    fails=pod("ports: [{name: http, containerPort: 80800}]"),
)
def invalid_pod_field(subject: Subject) -> Iterator[Hit]:
    version = subject.environment.kubernetes_version
    for template in subject.pod_templates if is_for_clusters(subject.kind) else ():
        for at, message in pod_validation.annotation_problems(template):
            yield Hit(f"{template.pointer}{at}", message, Pointer("/podAnnotations" + at[21:]))
        if template.body.get("spec") is None and not template.partial:
            yield Hit(template.pointer, "spec is missing")
        for at, message in pod_validation.problems("PodSpec", template.spec, version):
            spec = _spec(at, template.spec, _OF_PODS)
            yield Hit(f"{template.pointer}/spec{at}", message, spec)
        for container in (*template.containers, *template.ephemeral):
            yield from _in_container(container, template, version)


def _in_container(container: Container, template: PodTemplate, version: str) -> Iterator[Hit]:
    for at, message in pod_validation.problems("Container", container.body, version):
        main = container is template.main
        spec = _spec(at, container.body, _OF_CONTAINERS) if main else Pointer()
        yield Hit(f"{container.pointer}{at}", message, spec)


def _spec(at: Pointer, body: Mapping[str, object], known: Mapping[str, Pointer]) -> Pointer:
    """Where a job says what a pod or its container has at a position."""
    field, *rest = at.parts
    place = known.get(field, Pointer("/name"))
    if field in _MIXED or not rest:
        return place
    if field in _BY_NAME:
        name = text(mapping(lookup(body, Pointer.of(field, rest[0]))).get("name"))
        return Pointer(place / name + Pointer.of(*rest[1:])) if name else place
    return Pointer(place + Pointer.of(*rest))


RULES = defined_in(globals())
