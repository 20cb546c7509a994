"""Addresses of a workload's roles in its texts, for which a spec has references."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.pods.pod import Pod, Workload


def referring(text: str, workload: Workload) -> str:
    """A text of a spec that refers to the pods of roles instead of naming them."""
    for role in workload.serving:
        for pattern, reference in _references(role, workload.of_role(role)):
            text = pattern.sub(reference, text)
    return text


def staying(text: str, workload: Workload) -> str:
    """The first role of which a text that refers to all it can still names a pod, or nothing."""
    for role in workload.serving:
        hosts = "|".join(map(_host, workload.of_role(role)))
        if re.search(hosts, text):
            return role
    return ""


def port_of(pod: Pod) -> int | None:
    """Where a pod of a role listens: at the port of its probe, else at the first that it has."""
    probe = pod.rest.get("container", {}).get("readinessProbe") or {}
    asked = (probe.get("httpGet") or probe.get("tcpSocket") or {}).get("port")
    named = {port.name: port.number for port in pod.ports}
    first = next((port.number for port in pod.ports), None)
    return asked if isinstance(asked, int) else named.get(str(asked), first)


def _references(role: str, pods: tuple[Pod, ...]) -> Iterator[tuple[re.Pattern[str], str]]:
    """What to look for in a text, the longest first, and the reference to write in its place."""
    hosts, port = [*map(_host, pods)], port_of(pods[0])
    urls = [f"http://{host}:{port}(?!\\d)" for host in hosts]
    together = [(urls, "urls"), (hosts, "hosts")]
    for parts, name in together if len(pods) > 1 else ():
        yield re.compile(",".join(parts)), f"${{{{ roles.{role}.{name} }}}}"
    if port is not None:
        yield re.compile(urls[0]), f"${{{{ roles.{role}.url }}}}"
    if len(pods) == 1:
        yield re.compile(hosts[0]), f"${{{{ roles.{role}.hosts }}}}"


def _host(pod: Pod) -> str:
    """A pattern of a pod's host name; one without a domain is a host where a port follows it."""
    domain = r"(?:\.[a-z0-9-]+\.svc(?:\.cluster\.local)?)?"
    behind = rf"{domain}(?![\w-]|\.\w)" if "." in pod.hostname else r"(?=:\d)"
    return rf"(?<![\w.-]){re.escape(pod.hostname)}{behind}"
