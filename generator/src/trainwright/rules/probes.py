"""Probes and hooks of containers: what the API server takes, and what they do to a training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.model import Data, Severity
from trainwright.objects.rule import Rule, Sample, pod
from trainwright.objects.subject import Hit, Subject
from trainwright.pods.template import Container
from trainwright.pointer import Pointer
from trainwright.tolerant import count, dig, mapping

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_WAYS = {
    **dict.fromkeys(_PROBES, ("exec", "httpGet", "tcpSocket", "grpc")),
    **dict.fromkeys(_HOOKS, ("exec", "httpGet", "tcpSocket", "sleep")),
}


def _handlers(container: Container) -> Iterator[tuple[str, Pointer, Mapping[str, Data]]]:
    """The probes and hooks that a container has, by name, and where each is in it."""
    for name in _PROBES:
        if container.body.get(name) is not None:
            yield name, Pointer.of(name), mapping(container.body.get(name))
    for name in _HOOKS:
        if dig(container.body, "lifecycle", name) is not None:
            yield (
                name,
                Pointer.of("lifecycle", name),
                mapping(dig(container.body, "lifecycle", name)),
            )


def _d34(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for container in template.containers:
            for name, at, handler in _handlers(container):
                for message in _mistakes(name, handler):
                    spec = Pointer() if container.init else at
                    yield Hit(f"{container.pointer}{at}", message, spec)


def _mistakes(name: str, handler: Mapping[str, Data]) -> Iterator[str]:
    asked = [way for way in _WAYS[name] if handler.get(way) is not None]
    if len(asked) != 1:
        found = " and ".join(asked) or "none of them"
        yield f"{name} needs one of {', '.join(_WAYS[name])}, and has {found}"
    for way in asked:
        port = dig(handler, way, "port")
        if port is None and way not in ("exec", "sleep"):
            yield f"{name}.{way} has no port"
        elif isinstance(port, int) and not 1 <= port <= 65535:
            yield f"{name}.{way}.port is {port}, ports are 1 to 65535"
    if name in ("livenessProbe", "startupProbe") and handler.get("successThreshold") not in (
        None,
        1,
    ):
        yield f"{name}.successThreshold is {handler['successThreshold']}, and can only be 1"
    if name == "readinessProbe" and handler.get("terminationGracePeriodSeconds") is not None:
        yield f"{name} ends nothing, and has no terminationGracePeriodSeconds"


D34 = Rule(
    id="TW734",
    name="invalid-probe",
    severity=Severity.ERROR,
    summary="Every probe and hook says one thing to do, in values that the API server takes.",
    effect="The API server refuses a Pod; anything else waits for pods that are refused.",
    remedy="Correct the probe.",
    spec=Pointer("/livenessProbe"),
    source="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-probes",
    per_pod=True,
    run=_d34,
    passing=Sample(pod("livenessProbe: {exec: {command: [a]}}")),
    failing=Sample(pod("livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 80}}")),
)

_PATIENCE = 300  # seconds: loading a checkpoint or compiling a model takes minutes


def _d35(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        container = template.main
        probe = mapping(container.body.get("livenessProbe")) if container else {}
        if not container or not probe or container.body.get("startupProbe") is not None:
            continue
        period, failures = count(probe.get("periodSeconds")), count(probe.get("failureThreshold"))
        delay = count(probe.get("initialDelaySeconds")) or 0
        patience = delay + (period or 10) * (failures or 3)
        if patience < _PATIENCE:
            message = f"a training that answers no probe for its first {patience} seconds is ended"
            yield Hit(f"{container.pointer}/livenessProbe", message)


D35 = Rule(
    id="TW735",
    name="impatient-liveness-probe",
    severity=Severity.WARNING,
    summary="The liveness probe of a training or a startup probe waits 5 minutes for its start.",
    effect="While a checkpoint is loaded, a model compiled or a collective waits, the kubelet "
    "kills the container, and the other ranks fail with it.",
    remedy="Add a startupProbe, raise failureThreshold, or remove the livenessProbe: a rank that "
    "hangs is found by the entrypoint's own timeouts.",
    spec=Pointer("/livenessProbe"),
    source="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
    per_pod=True,
    run=_d35,
    passing=Sample(
        pod("livenessProbe: {exec: {command: [a]}, periodSeconds: 60, failureThreshold: 10}")
    ),
    failing=Sample(pod("livenessProbe: {exec: {command: [a]}}")),
)
RULES = (D34, D35)
