"""PodMonitors: the ports of a workload that are scraped for metrics.

https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PodMonitor
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.datatypes.data import Data, mapping, mappings, text
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import KINDS
from trainwright.objects.pods.pod import Pod

GROUP, KIND = "monitoring.coreos.com", "PodMonitor"
VARIABLE = "TRAINWRIGHT_METRICS_PORT"
# Labels that operators give to the pods of an object, whose name they are.
OF_OPERATORS = tuple(label for kind in KINDS.values() for label in kind.name_labels)
_DEFAULTS = {"path": "/metrics", "scheme": "http"}


def selects(body: Mapping[str, Data], pod: Pod, name: str) -> bool:
    """Whether a PodMonitor is about the pods of one object, by its name."""
    selector = mapping(mapping(body.get("spec")).get("selector"))
    wanted = mapping(selector.get("matchLabels"))
    labels = {**dict.fromkeys(OF_OPERATORS, name), **pod.labels}
    return set(selector) == {"matchLabels"} and len(wanted) > 0 and wanted.items() <= labels.items()


def scraped(body: Mapping[str, Data], pods: Sequence[Pod]) -> tuple[str, ...]:
    """Return the ports by number, or by name if the number is not the same in all pods."""
    ports = [{port.name: str(port.number) for port in pod.ports} for pod in pods]
    scraped_ports = []
    for endpoint in _endpoints(body):
        name = text(endpoint.get("port"))
        numbers = {by_name.get(name, name) for by_name in ports}
        scraped_ports.append(numbers.pop() if len(numbers) == 1 else name)
    return tuple(scraped_ports)


def _endpoints(body: Mapping[str, Data]) -> Sequence[Mapping[str, Data]]:
    return mappings(mapping(body.get("spec")).get("podMetricsEndpoints"))


def remainder(body: Mapping[str, Data], pods: Sequence[Pod], workload: Manifest) -> dict[str, Data]:
    """Return a PodMonitor's spec with ports by number, without what selects the workload."""
    rest = {k: v for k, v in mapping(body.get("spec")).items() if k != "podMetricsEndpoints"}
    if all(selects(body, pod, workload.name) for pod in pods):
        rest.pop("selector")
    if mapping(rest.get("namespaceSelector")) == {"matchNames": [workload.namespace]}:
        rest.pop("namespaceSelector")
    settings = [
        {k: v for k, v in endpoint.items() if k != "port" and v != _DEFAULTS.get(k)}
        for endpoint in _endpoints(body)
    ]
    return {**rest, "ports": dict.fromkeys(scraped(body, pods), True), "settings": settings}
