"""Pod security standards. https://kubernetes.io/docs/concepts/security/pod-security-standards/"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import is_for_clusters
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules import pod_security


@error("TW707", spec=Pointer("/security"), per_pod=True)
def pod_security_violation(subject: Subject) -> Iterator[Hit]:
    environment = subject.environment
    if environment.pod_security == "privileged" or not is_for_clusters(subject.kind):
        return
    minor = environment.kubernetes_minor
    for template in subject.pod_templates:
        yield from pod_security.violations(template, environment.pod_security, minor)


@warning("TW708", per_pod=True)
def mesh_sidecar_injected(subject: Subject) -> Iterator[Hit]:
    mesh = subject.environment.service_mesh
    key = "sidecar.istio.io/inject"
    for template in subject.templates if mesh != "none" else ():
        labels, annotations = template.labels, template.annotations
        pointer = f"{template.pointer}/metadata"
        if template.partial:
            continue
        if mesh == "istio" and not (labels.get(key) == annotations.get(key) == "false"):
            yield Hit(pointer, f'the label and annotation {key}: "false" are not both there')
        if mesh == "linkerd" and annotations.get("linkerd.io/inject") != "disabled":
            yield Hit(pointer, "the annotation linkerd.io/inject: disabled is not there")


RULES = defined_in(globals())
