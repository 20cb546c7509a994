"""Defaults that the API server and webhooks fill in: removing such a value changes nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from trainwright.datatypes.data import Data, mapping, text
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, matching
from trainwright.objects.pods.probes import DEFAULTS as PROBE


@dataclass(frozen=True, slots=True)
class Default:
    """The value of a field that is left out, by the object that lacks it; `path` may have *."""

    path: Pointer
    value: Callable[[Data], Data]


def defaults(by_path: Mapping[str, Data | Callable[[Data], Data]]) -> tuple[Default, ...]:
    """Defaults by pointer, with * for any key or index."""
    return tuple(
        Default(Pointer(path), value if callable(value) else _constant(value))
        for path, value in by_path.items()
    )


def _constant(value: Data) -> Callable[[Data], Data]:
    return lambda _: copy.deepcopy(value)


def filled(manifest: Manifest, known_defaults: tuple[Default, ...]) -> Manifest:
    """Return the object as the API server stores it, with all known defaults filled in."""
    body = copy.deepcopy(dict(manifest.body))
    for default in known_defaults:
        for _, holder in matching(body, default.path.parent):
            if isinstance(holder, dict) and holder.get(default.path.last) is None:
                holder[default.path.last] = default.value(holder)
    return Manifest(body=body, path=manifest.path)


def _pull_policy(container: Data) -> Data:
    image = text(mapping(container).get("image")).partition("@")
    tag = image[0].rpartition("/")[2].partition(":")[2]
    return "Always" if not image[2] and tag in ("", "latest") else "IfNotPresent"


def of_pods(template: str) -> tuple[Default, ...]:
    """Return the defaults of built-in pod templates; those in custom resources have nearly none."""
    spec = f"{template}/spec"
    probes = {
        f"{spec}/containers/*/{probe}/{field}": value
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for field, value in PROBE.items()
    }
    containers: dict[str, Data | Callable[[Data], Data]] = {
        f"{spec}/{which}/*/{field}": value
        for which in ("containers", "initContainers")
        for field, value in {
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": _pull_policy,
            "resources": {},
            "ports/*/protocol": "TCP",
            "env/*/valueFrom/fieldRef/apiVersion": "v1",
        }.items()
    }
    return defaults(
        {
            f"{spec}/dnsPolicy": "ClusterFirst",
            f"{spec}/schedulerName": "default-scheduler",
            f"{spec}/terminationGracePeriodSeconds": 30,
            f"{spec}/securityContext": {},
            f"{spec}/enableServiceLinks": True,
            f"{spec}/volumes/*/configMap/defaultMode": 0o644,
            f"{spec}/volumes/*/secret/defaultMode": 0o644,
            f"{spec}/volumes/*/projected/defaultMode": 0o644,
            f"{spec}/volumes/*/hostPath/type": "",
            **containers,
            **probes,
        }
    )
