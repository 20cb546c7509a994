"""The services of a Compose file as pod templates, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, digits, mapping, sequence, text
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.compose import KIND, notation
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import ROLE_LABEL, PodTemplate


def _compose(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """Yield the services of a Compose file as the pods they would be."""
    for name, service in mapping(manifest.spec.get("services")).items():
        container, spec = _service(str(name), mapping(service))
        pod: dict[str, Data] = {**spec, "containers": [container]}
        pointer = Pointer.of("spec", "services", str(name))
        body = mapping(service)
        metadata = {key: notation.pairs(body.get(key)) for key in ("labels", "annotations")}
        # Docker starts a container again on the same machine, with the files that it has.
        role = metadata["labels"].get(ROLE_LABEL, str(name))
        template = {"metadata": metadata, "spec": pod}
        yield PodTemplate(pointer, template, role, retried=False, host=str(name))


def _service(name: str, service: Mapping[str, Data]) -> tuple[dict[str, Data], dict[str, Data]]:
    """Return a service as a container, and the rest of its pod's spec."""
    added, dropped = (list(sequence(service.get(f"cap_{w}"))) for w in ("add", "drop"))
    hardened = "no-new-privileges:true" in sequence(service.get("security_opt"))
    container: dict[str, Data] = {
        "name": name,
        "image": service.get("image"),
        "command": sequence(service.get("entrypoint")),
        "args": sequence(service.get("command")),
        "env": [
            {"name": name, **({} if _from_shell(value) else {"value": value})}
            for name, value in notation.variables(service.get("environment")).items()
        ],
        "ports": [_port(str(port)) for port in sequence(service.get("expose"))],
        "securityContext": {
            "allowPrivilegeEscalation": not hardened,
            "capabilities": {"drop": dropped, "add": added},
            "runAsNonRoot": text(service.get("user")).partition(":")[0] not in ("", "0"),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    grace = text(service.get("stop_grace_period")).removesuffix("s")
    seconds = digits(grace)
    return container, {} if seconds is None else {"terminationGracePeriodSeconds": seconds}


def _port(exposed: str) -> dict[str, Data]:
    number, _, protocol = exposed.partition("/")
    return {"containerPort": number, "protocol": (protocol or "tcp").upper()}


def _from_shell(value: Data) -> bool:
    return value is None or text(value).startswith("${")


TEMPLATES = {KIND.group_kind: _compose}
