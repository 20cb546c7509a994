"""Addresses of a workload's roles in its texts, for which a spec has references."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.importing.equivalence.form import called
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import Pod, Workload


def referring(text: str, workload: Workload) -> str:
    """Return a text of a spec that refers to the pods of roles instead of naming them."""
    for role in workload.serving:
        for pattern, reference in _references(role, workload.of_role(role)):
            text = pattern.sub(reference, text)
    return text


def staying(text: str, workload: Workload, *, bare: bool) -> str:
    """Return the first role whose pods a text still names besides all references; empty if none.

    With `bare`, a word that is nothing but such a name counts as well; else the name of the role
    itself leads to its pods in the rendered run too.
    """
    for role in workload.serving:
        pods = workload.of_role(role)
        names = {name for pod in pods for name in (pod.hostname, *pod.aliases)}
        names -= set() if bare else {role}
        words = [rf"(?<![^\s=,]){re.escape(name)}(?![^\s,])" for name in names if bare]
        if names and re.search("|".join([*map(called, names), *words]), text):
            return role
    return ""


def port_of(pod: Pod) -> int | None:
    """Return the port at which a pod of a role listens: its probe's, else its first, or None."""
    probe = pod.rest.get("container", {}).get("readinessProbe") or {}
    probe_port = (probe.get("httpGet") or probe.get("tcpSocket") or {}).get("port")
    named = {port.name: port.number for port in pod.ports}
    first = next((port.number for port in pod.ports), None)
    return probe_port if isinstance(probe_port, int) else named.get(str(probe_port), first)


def _references(role: str, pods: Pods) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield patterns for a role's hosts and URLs, longest first, and the reference for each."""
    if len({pod.hostname for pod in pods}) < len(pods):
        return  # one name resolves to all of them, to a different one each time
    hosts, port = [*map(_host, pods)], port_of(pods[0])
    urls = [f"http://{host}:{port}(?!\\d)" for host in hosts]
    together = [(urls, "urls"), (hosts, "hosts")]
    for parts, name in together if len(pods) > 1 else ():
        yield re.compile(",".join(parts)), f"${{{{ roles.{role}.{name} }}}}"
    if port is not None:
        yield re.compile(urls[0]), f"${{{{ roles.{role}.url }}}}"
    for index, host in enumerate(hosts):
        which = "hosts" if len(pods) == 1 else f"hosts[{index}]"
        yield re.compile(host), f"${{{{ roles.{role}.{which} }}}}"


def _host(pod: Pod) -> str:
    """Return a pattern of any name of a pod."""
    return f"(?:{'|'.join(map(called, (pod.hostname, *pod.aliases)))})"
