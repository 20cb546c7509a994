"""Probes and hooks of containers: what the API server accepts, and how they affect training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, integer, mapping, mappings, sequence, text
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.objects import forms
from trainwright.objects.pods.launching import launches
from trainwright.objects.pods.probes import patience
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import numbers, upstream
from trainwright.rules.field_checks import Problem, between
from trainwright.rules.serving import serves_model

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


@error("TW734", about=(*_PROBES, "lifecycle"), spec=Pointer("/livenessProbe"), per_pod=True)
def invalid_probe(subject: Subject) -> Iterator[Hit]:
    minor = subject.environment.kubernetes_minor
    for template in subject.pod_templates:
        grace = template.spec.get("terminationGracePeriodSeconds")
        most = _GRACE if grace is None else integer(grace)
        for container in template.containers:
            ends = container.init and container.body.get("restartPolicy") != "Always"
            for name, at, handler in _handlers(container):
                spec = Pointer() if container.init else at
                if ends:
                    message = (
                        f"{name} is for sidecars (restartPolicy: Always), and this container ends"
                    )
                    yield Hit(f"{container.pointer}{at}", message, spec)
                    continue
                named = None if template.partial else _ports(container)
                for where, message in _mistakes(name, handler, named, most, minor):
                    form = "port" if _NAMED_PORTS in message else ""
                    at_field = Pointer(spec + where)
                    yield Hit(f"{container.pointer}{at}{where}", message, at_field, form=form)


def _ports(container: Container) -> set[str]:
    """The ports of a container that have names."""
    return {text(port.get("name")) for port in mappings(container.body.get("ports"))}


def _mistakes(
    name: str, handler: Mapping[str, Data], ports: set[str] | None, grace: int | None, minor: int
) -> Iterator[Problem]:
    """Yield what the API server refuses of a probe or hook, after where it is."""
    handlers = [way for way in _WAYS[name] if handler.get(way) is not None]
    if len(handlers) != 1:
        present = " and ".join(handlers) or "none of them"
        yield Pointer(), f"{name} needs one of {', '.join(_WAYS[name])}, and has {present}"
    for way in handlers:
        for where, message in _of_way(way, mapping(handler[way]), ports, grace, minor):
            yield Pointer(Pointer.of(way) + where), f"{name}.{way}{message}"
    for check in _NUMBERS if name in _PROBES else ():
        for where, message in check(handler):
            yield where, f"{name}.{message}"
    if name in ("livenessProbe", "startupProbe") and handler.get("successThreshold") not in (
        None,
        0,  # the server makes it 1
        1,
    ):
        at = Pointer("/successThreshold")
        yield at, f"{name}.successThreshold is {handler['successThreshold']}, and can only be 1"
    if name == "readinessProbe" and handler.get("terminationGracePeriodSeconds") is not None:
        at = Pointer("/terminationGracePeriodSeconds")
        yield at, f"{name} ends nothing, and has no terminationGracePeriodSeconds"


def _of_way(
    way: str, action: Mapping[str, Data], ports: set[str] | None, grace: int | None, minor: int
) -> Iterator[Problem]:
    """Yield what it refuses of one way to act, such as `httpGet`."""
    if way == "exec":
        if not sequence(action.get("command")):
            yield Pointer(), " has no command"
    elif way == "sleep":
        yield from _sleep(action, grace, minor)
    else:
        yield from _port(way, action.get("port"), ports)


def _port(way: str, port: Data, ports: set[str] | None) -> Iterator[Problem]:
    """Yield what it refuses of the port of a probe."""
    at, number = Pointer("/port"), count(port)
    if port is None:
        yield Pointer(), " has no port"
    elif isinstance(port, str) and port.isdecimal() and way != "grpc":
        yield at, f'.port is the text "{port}": a number has no quotes'
    elif not isinstance(port, str) and number is not None and not 1 <= number <= _LAST_PORT:
        yield at, f".port is {number}, ports are 1 to {_LAST_PORT}"
    elif isinstance(port, str) and not forms.is_template(port) and ports is not None:
        if problem := forms.PORT.problem(port):
            yield at, f'.port: "{port}" {problem}'
        elif port not in ports:
            named = ", ".join(sorted(ports - {""})) or "none"
            yield at, f'.port is "{port}", {_NAMED_PORTS}: {named}'


def _sleep(action: Mapping[str, Data], grace: int | None, minor: int) -> Iterator[Problem]:
    seconds, least = integer(action.get("seconds")), 0 if minor >= _SLEEP_ZERO else 1
    if seconds is not None and grace is not None and not least <= seconds <= grace:
        limit = f"{least} to terminationGracePeriodSeconds ({grace})"
        yield Pointer("/seconds"), f".seconds is {seconds}, and can be {limit}"


_NAMED_PORTS = "the names of the container's ports"
_GRACE = 30  # seconds, where a pod has none of its own
_SLEEP_ZERO = numbers(upstream("kubernetes/sleep-of-zero").since)[1]
_LAST_PORT = 65535
_NUMBERS = (
    *(
        between(field, 0)
        for field in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        )
    ),
    between("terminationGracePeriodSeconds", 1),
)


_PATIENCE = 300  # seconds: loading a checkpoint or compiling a model takes minutes


def _trains(template: PodTemplate) -> bool:
    """Whether the pods are sure to train, and not to serve or to copy."""
    return bool(template.accelerators) or any(launches(c.started) for c in template.trains)


@warning(
    "TW735", about=("livenessProbe", "startupProbe"), spec=Pointer("/livenessProbe"), per_pod=True
)
def impatient_liveness_probe(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        container = template.main
        body = container.body if container else {}
        name = "livenessProbe" if body.get("startupProbe") is None else "startupProbe"
        probe = mapping(body.get(name))
        if not container or not probe or (name == "startupProbe" and not _trains(template)):
            continue
        if serves_model(subject.kind, template):
            continue
        if (seconds := patience(probe)) < _PATIENCE:
            message = f"a training that answers no probe for its first {seconds} seconds is ended"
            yield Hit(Pointer(container.pointer) / name, message, Pointer.of(name))


RULES = defined_in(globals())
