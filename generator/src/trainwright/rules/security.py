"""Pod security standards. https://kubernetes.io/docs/concepts/security/pod-security-standards/"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.model import Data, Severity
from trainwright.objects.rule import Rule, Sample, pod
from trainwright.objects.subject import Hit, Subject
from trainwright.objects.template import Container, PodTemplate
from trainwright.objects.tolerant import dig, mapping, sequence, text
from trainwright.pointer import Pointer

_STANDARDS = "https://kubernetes.io/docs/concepts/security/pod-security-standards/"
_BASELINE_CAPABILITIES = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID"
    " SETPCAP SETUID SYS_CHROOT".split()
)
_RESTRICTED_VOLUMES = frozenset(
    "configMap csi downwardAPI emptyDir ephemeral persistentVolumeClaim projected secret"
    " hostPath name".split()  # hostPath is said once, by baseline
)


def _context(container: Container) -> Mapping[str, Data]:
    return mapping(container.body.get("securityContext"))


def _baseline(template: PodTemplate) -> Iterator[Hit]:
    pointer = f"{template.pointer}/spec"
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if template.spec.get(field) is True:
            yield Hit(f"{pointer}/{field}", f"{field} is refused")
    for where, volume in template.volumes:
        if "hostPath" in volume:
            name = text(volume.get("name"))
            yield Hit(f"{where}/hostPath", "hostPath is refused", Pointer.of("volumes", name))
    for container in template.containers:
        yield from _baseline_container(container)


def _baseline_container(container: Container) -> Iterator[Hit]:
    own, where = _context(container), f"{container.pointer}/securityContext"
    if own.get("privileged") is True:
        yield Hit(f"{where}/privileged", "privileged is refused")
    for capability in sequence(dig(own, "capabilities", "add")):
        if text(capability) not in _BASELINE_CAPABILITIES:
            message = f"the capability {capability} is refused"
            yield Hit(f"{where}/capabilities/add", message, Pointer("/security/capabilities"))
    for index, port in enumerate(sequence(container.body.get("ports"))):
        if mapping(port).get("hostPort"):
            yield Hit(f"{container.pointer}/ports/{index}", "hostPort is refused")


def _restricted(template: PodTemplate) -> Iterator[Hit]:
    for where, volume in template.volumes:
        for kind in volume:
            if kind not in _RESTRICTED_VOLUMES:
                name = text(volume.get("name"))
                yield Hit(where, f"a volume of kind {kind} is refused", Pointer.of("volumes", name))
    pod = mapping(template.spec.get("securityContext"))
    for container in template.containers:
        where = f"{container.pointer}/securityContext"
        for what, spec in _unrestricted(_context(container), pod):
            yield Hit(where, f"{container.name}: {what}", spec)


def _unrestricted(
    own: Mapping[str, Data], pod: Mapping[str, Data]
) -> Iterator[tuple[str, Pointer]]:
    """What `restricted` asks for beyond `baseline` and a container lacks, and where in the spec."""
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation must be false", Pointer()
    if "ALL" not in sequence(dig(own, "capabilities", "drop")):
        yield "all capabilities must be dropped", Pointer()
    for capability in sequence(dig(own, "capabilities", "add")):
        if capability != "NET_BIND_SERVICE" and text(capability) in _BASELINE_CAPABILITIES:
            yield f"the capability {capability} is refused", Pointer("/security/capabilities")
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot must be true", Pointer()
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield "runAsUser must not be 0", Pointer("/security/runAsUser")
    profile = dig(own, "seccompProfile", "type") or dig(pod, "seccompProfile", "type")
    if profile not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile must be RuntimeDefault", Pointer()


def _d07(subject: Subject) -> Iterator[Hit]:
    level = subject.environment.pod_security
    for template in subject.templates:
        if level in ("baseline", "restricted"):
            for hit in _baseline(template):
                yield Hit(hit.pointer, f"{hit.message} by {level} pod security", hit.spec)
        if level == "restricted" and not template.partial:
            yield from _restricted(template)


D07 = Rule(
    id="TW707",
    name="pod-security-violation",
    severity=Severity.ERROR,
    summary="Pods keep to the pod security standard that the namespace enforces.",
    effect="A Job is refused. Others are accepted and wait: the child Job of a JobSet or TrainJob "
    "is refused, or the pods of a PyTorchJob.",
    remedy="Remove the field, or lower podSecurity in environment.yaml if the namespace allows it.",
    spec=Pointer("/security"),
    source=_STANDARDS,
    per_pod=True,
    run=_d07,
    passing=Sample(
        pod(
            "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
            ", securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}",
        ),
        environment="podSecurity: restricted",
    ),
    failing=Sample(
        pod("securityContext: {capabilities: {add: [IPC_LOCK]}}"),
        environment="podSecurity: baseline",
    ),
)


def _d08(subject: Subject) -> Iterator[Hit]:
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


D08 = Rule(
    id="TW708",
    name="mesh-sidecar-injected",
    severity=Severity.WARNING,
    summary="In a mesh, training pods opt out of the sidecar, by label and by annotation.",
    effect="The sidecar breaks NCCL and gloo and keeps finished pods running.",
    remedy="Set serviceMesh in environment.yaml: the opt-out is then rendered.",
    by_hand="Opt out in the metadata of the pod template, by label and by annotation.",
    source="https://github.com/kubeflow/manifests/issues/2798",
    per_pod=True,
    run=_d08,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {metadata: {labels: "
        '{sidecar.istio.io/inject: "false"}, annotations: {sidecar.istio.io/inject: "false"}}}}}}',
        environment="serviceMesh: istio",
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {metadata: "
        '{annotations: {sidecar.istio.io/inject: "false"}}}}}}',
        environment="serviceMesh: istio",
    ),
)
RULES = (D07, D08)
