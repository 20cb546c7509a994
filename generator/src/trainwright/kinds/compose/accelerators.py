"""GPUs of a compose service: reservations, `gpus`, CDI devices, or NVIDIA's runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.kinds.compose import notation
from trainwright.objects.pods.pod import ALL

# https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
_CDI = re.compile(r"(?P<kind>[\w.-]+/[\w.-]+)=(?P<device>[\w.:-]+)")
# Values by which NVIDIA's runtime gives a container no GPU.
# https://github.com/NVIDIA/nvidia-container-toolkit/blob/main/internal/config/image/devices.go
_NONE = frozenset({"", "none", "void"})


def accelerators(service: Mapping[str, Data]) -> dict[str, str]:
    """Return how many devices of each resource a service takes, as a number or `all`.

    NVIDIA's runtime counts only if nothing else requests devices, as for Docker itself.
    """
    requested = dict(_reserved(service))
    for kind, devices in _of_cdi(service).items():
        requested.setdefault(kind, ALL if ALL in devices else str(len(devices)))
    return requested or dict(_of_runtime(service))


def _reserved(service: Mapping[str, Data]) -> Iterator[tuple[str, str]]:
    """Yield what is reserved, and what `gpus` is short for.

    https://docs.docker.com/reference/compose-file/services/#gpus
    """
    written = service.get("gpus")
    gpus = [{"count": ALL}] if written == ALL else mappings(written)
    short: list[Mapping[str, Data]] = [{"capabilities": ["gpu"], **device} for device in gpus]
    reserved = mapping(dig(service, "deploy", "resources", "reservations"))
    for device in [*mappings(reserved.get("devices")), *short]:
        if "gpu" in sequence(device.get("capabilities")):
            count = device.get("count", len(sequence(device.get("device_ids"))) or ALL)
            yield f"{device.get('driver', 'nvidia')}.com/gpu", ALL if count == -1 else str(count)
    # Of a swarm, whose nodes name what they have: NVIDIA-GPU.
    for generic in mappings(reserved.get("generic_resources")):
        described = mapping(generic.get("discrete_resource_spec"))
        if "gpu" in text(described.get("kind")).lower():
            yield "nvidia.com/gpu", str(described.get("value", 1))


def _of_cdi(service: Mapping[str, Data]) -> dict[str, set[str]]:
    devices: dict[str, set[str]] = {}
    for written in sequence(service.get("devices")):
        match = _CDI.fullmatch(str(written))
        if match:
            devices.setdefault(match["kind"], set()).add(match["device"])
    return devices


def _of_runtime(service: Mapping[str, Data]) -> Iterator[tuple[str, str]]:
    if service.get("runtime") != "nvidia":
        return
    # Images with CUDA have "all" themselves.
    visible = notation.variables(service.get("environment")).get("NVIDIA_VISIBLE_DEVICES", ALL)
    value = notation.plain(notation.word(visible))
    if visible is not None and value not in _NONE:
        listed = value != ALL and "$" not in value
        yield "nvidia.com/gpu", str(len(value.split(","))) if listed else ALL
