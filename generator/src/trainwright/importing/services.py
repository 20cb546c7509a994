"""People's own Services that lead to the pods of a workload: a rendered run's pods have others.

If one leads to a single pod, with rank 0 or of a role, its name is another name of that pod, and is
read as its host name. The names of other such Services are found by `staying`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, mapping, mappings
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import SERVICE
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import scalars, with_value
from trainwright.importing.kept_names import is_text, is_variable
from trainwright.kinds import KINDS, SERVED
from trainwright.kinds.reading import SourceObject
from trainwright.objects.pods.pod import DOMAIN, Pod, Workload

_DOMAINS = tuple({domain for kind in KINDS.values() for domain in kind.domains})


@dataclass(frozen=True, slots=True)
class Services:
    """Names of the Services that lead to the pods of a workload.

    `hosts` maps those that lead to a single pod, with rank 0 or of a role, to its host name, which
    means the same. `domain` is the Service in whose domain all pods are found.
    """

    leading: tuple[str, ...]
    hosts: Mapping[str, str]
    domain: str = ""

    def is_domain(self, text: str) -> bool:
        """Whether a text is the name of the domain, and nothing else."""
        full = rf"{re.escape(self.domain)}(?:{DOMAIN})?\.?"
        return bool(self.domain) and re.fullmatch(full, text) is not None


def find(others: Sequence[SourceObject], name: Manifest, workload: Workload) -> Services:
    """Return the Services among other objects that lead to pods of a workload at its largest."""
    services = [s for s in others if s.group_kind == SERVICE and _is_near(s, name)]
    led = {s.name: [p.name for p in workload.pods if _leads(s, p)] for s in services}
    of_roles = (pod for role in workload.serving for pod in workload.of_role(role))
    named = (workload.training[0], *of_roles)
    return Services(
        leading=tuple(service for service, pods in led.items() if pods),
        hosts={
            s.name: pod.hostname
            for s in services
            for pod in named
            if led[s.name] == [pod.name] and _is_plain(s, pod)
        },
        domain=workload.training[0].hostname.partition(".")[2],
    )


def _is_near(service: Manifest, workload: Manifest) -> bool:
    """Whether a Service is in the namespace of a workload: it selects no pods in any other."""
    return not service.namespace or workload.namespace in ("", service.namespace)


def selector(other: Manifest) -> Mapping[str, Data]:
    """Return the labels by which a Service or another object, such as a NetworkPolicy, selects."""
    selects = mapping(other.spec.get("selector") or other.spec.get("podSelector"))
    return mapping(selects.get("matchLabels", selects))


def is_of_run(service: Manifest, others: Sequence[Manifest]) -> bool:
    """Whether pods find each other by a Service: it has no address, or a training names it."""
    if service.spec.get("clusterIP") == "None":
        return True
    trainings = (other for other in others if other.group_kind in SERVED)
    texts = (str(text) for other in trainings for at, text in scalars(other.body) if is_text(at))
    return any(service.name in _NOT_IN_NAMES.split(text) for text in texts)


_NOT_IN_NAMES = re.compile(r"[^\w-]+")


def _leads(service: Manifest, pod: Pod) -> bool:
    """Whether a Service selects a pod, as far as the labels added by controllers are known."""
    labels = {**pod.labels, **pod.controller_labels}
    unknown = {k for k in selector(service) if k not in labels and k.startswith(_DOMAINS)}
    selected = {k: v for k, v in selector(service).items() if k not in unknown}
    return len(selected) > 0 and selected.items() <= labels.items()


def _is_plain(service: Manifest, pod: Pod) -> bool:
    """Whether a Service is just a name: the pod has all labels it selects, and no port is remapped.

    https://kubernetes.io/docs/concepts/services-networking/service/#headless-services
    """
    spec = service.spec
    ports = mappings(spec.get("ports"))
    labels = {**pod.labels, **pod.controller_labels}
    same = all(port.get("targetPort", port.get("port")) == port.get("port") for port in ports)
    return set(selector(service)) <= set(labels) and (spec.get("clusterIP") == "None" or same)


# --- their names in texts ------------------------------------------------------------------------


def with_hosts(part: SourceObject, services: Services, namespace: str) -> SourceObject:
    """Return an object that names pods by their host names instead of by a Service's."""
    patterns = [(_naming(s, namespace), host) for s, host in services.hosts.items() if "-" in s]
    body: Data = part.body
    for pointer, value in scalars(part.body) if patterns else ():
        if isinstance(value, str) and is_text(pointer):
            if is_variable(pointer) and services.is_domain(value):
                continue  # to which a script adds the name of a pod
            text = value
            for pattern, host in patterns:
                text = pattern.sub(host, text)
            body = with_value(body, pointer, text) if text != value else body
    return replace(part, body=body)


def _naming(name: str, namespace: str) -> re.Pattern[str]:
    """Return a pattern of a Service's name as a host, and not as part of a path or file name.

    A name without a hyphen may be any word, as `train` is, and is replaced nowhere.
    """
    near = rf"\.{re.escape(namespace)}" if namespace else r"\.[a-z0-9-]+(?=:\d)"
    host = rf"{re.escape(name)}(?:{DOMAIN}\.?|{near})?"
    return re.compile(rf"(?<=://){host}(?![\w-]|\.\w)|(?<![\w./@-]){host}(?![\w/-]|\.\w)")
