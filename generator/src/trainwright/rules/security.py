"""Pod security standards. https://kubernetes.io/docs/concepts/security/pod-security-standards/"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import is_for_clusters
from trainwright.rule_model.rule import defined_in, error, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules import pod_security

_STANDARDS = "https://kubernetes.io/docs/concepts/security/pod-security-standards/"


@error(
    id="TW707",
    summary="Pods keep to the pod security standard that the namespace enforces.",
    effect="A Pod is refused. Anything else is accepted and waits: its pods are refused.",
    remedy="Remove the field, or lower podSecurity in environment.yaml if the namespace allows it.",
    spec=Pointer("/security"),
    source=_STANDARDS,
    per_pod=True,
    passes=pod(
        "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
        ", securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}",
    ),
    passes_in="podSecurity: restricted",
    fails=pod("securityContext: {capabilities: {add: [IPC_LOCK]}}"),
    fails_in="podSecurity: baseline",
)
def pod_security_violation(subject: Subject) -> Iterator[Hit]:
    environment = subject.environment
    minor = environment.kubernetes_minor
    for template in subject.pod_templates if is_for_clusters(subject.kind) else ():
        yield from pod_security.violations(template, environment.pod_security, minor)


@warning(
    id="TW708",
    summary="In a mesh, training pods opt out of the sidecar, by label and by annotation.",
    effect="The sidecar breaks NCCL and gloo and keeps finished pods running.",
    remedy="Set serviceMesh in environment.yaml: the opt-out is then rendered.",
    by_hand="Opt out in the metadata of the pod template, by label and by annotation.",
    source="https://github.com/kubeflow/manifests/issues/2798",
    per_pod=True,
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {metadata: {labels: "
    '{sidecar.istio.io/inject: "false"}, annotations: {sidecar.istio.io/inject: "false"}}}}}}',
    passes_in="serviceMesh: istio",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {metadata: "
    '{annotations: {sidecar.istio.io/inject: "false"}}}}}}',
    fails_in="serviceMesh: istio",
)
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
