"""Pod security, held against the verdicts of Kubernetes' own admission, and by version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import leaves, lookup
from trainwright.kinds import KINDS
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.rules import pod_security
from trainwright.rules.registry import RULES

LEVELS = ("baseline", "restricted")
MINORS = (30, 34, 37)


def messages(body: dict[str, Data], level: str, minor: int) -> list[str]:
    environment = _enforcing(level, minor)
    hits = list(RULES["TW707"].run(subject_of(Manifest(body=body), environment)))
    for hit in hits:  # at a field that is there, or at what lacks one
        at = hit.pointer.removesuffix("/securityContext")
        assert lookup(body, at) is not None, hit
    return [hit.message for hit in hits]


def _enforcing(level: str, minor: int) -> Any:
    from dataclasses import replace

    return replace(nowhere(f"1.{minor}"), pod_security=level)


def _job(pod: dict[str, Data]) -> dict[str, Data]:
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"template": template},
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("minor", MINORS)
def test_every_verdict_of_the_admission(
    shared: Callable[[str], Path], level: str, minor: int
) -> None:
    folder = shared(f"oracles/pod-security/{level}/v1.{minor}")
    wrong = []
    files = sorted(folder.glob("*/*.yaml"))
    for file in files:
        pod = yaml.safe_load(file.read_text())
        for body in (pod, _job(pod)):
            if bool(messages(body, level, minor)) != (file.parent.name == "fail"):
                wrong.append(f"{file.parent.name}/{file.name} as a {body['kind']}")
    assert len(files) >= 40
    assert not wrong


def _pod(spec: str = "{}", container: str = "{}", metadata: str = "{}") -> dict[str, Data]:
    containers = [{"name": "main", **yaml.safe_load(container)}]
    pod = {"containers": containers, **yaml.safe_load(spec)}
    return {"kind": "Pod", "metadata": yaml.safe_load(metadata), "spec": pod}


SAFE = (
    "allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true, "
    "seccompProfile: {type: RuntimeDefault}"
)
EVERY_CONTEXT = (
    "{seLinuxOptions: {type: a, user: b, role: c}, seccompProfile: {type: a}, procMount: a, "
    "appArmorProfile: {type: a}, windowsOptions: {hostProcess: true}, capabilities: {add: [A]}, "
    "privileged: true, runAsUser: 0}"
)
EVERY_FIELD = (
    f"{{securityContext: {EVERY_CONTEXT}, os: {{name: linux}}, hostUsers: true, hostPID: true, "
    "volumes: [{name: a, hostPath: {path: /}}]}"
)
USER_NAMESPACE = "{hostUsers: false}"
OF_WINDOWS = "{os: {name: windows}, securityContext: {runAsNonRoot: true}}"
SYSCTL = "{securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: x}]}}"
SELINUX = "{securityContext: {seLinuxOptions: {type: container_engine_t}}}"
PROBE = "{livenessProbe: {httpGet: {port: 80, host: 10.0.0.1}}}"
ANNOTATED = "{annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}}"
UNMASKED = f"{{securityContext: {{procMount: Unmasked, {SAFE}}}}}"
ROOT = f"{{securityContext: {{{SAFE}, runAsUser: 0}}}}"


@pytest.mark.parametrize(
    ("level", "first", "last", "pod"),
    [
        # of each: the minors that refuse it
        ("baseline", 0, 37, _pod("{hostNetwork: true}")),
        ("baseline", 0, 37, _pod("{volumes: [{name: a, hostPath: {path: /}}]}")),
        ("baseline", 0, 31, _pod(SYSCTL)),
        ("baseline", 0, 30, _pod(SELINUX)),
        ("baseline", 34, 37, _pod(container=PROBE)),
        ("baseline", 0, 18, _pod(metadata=ANNOTATED)),
        ("baseline", 19, 37, _pod("{securityContext: {seccompProfile: {type: Unconfined}}}")),
        ("baseline", 0, 34, _pod(USER_NAMESPACE, UNMASKED)),
        ("restricted", 0, 37, _pod(USER_NAMESPACE, UNMASKED)),
        ("restricted", 0, 37, _pod("{volumes: [{name: a, nfs: {path: /, server: x}}]}")),
        ("restricted", 0, 37, _pod()),
        ("restricted", 19, 37, _pod("{hostUsers: false, securityContext: {runAsNonRoot: true}}")
            | {"spec": {"securityContext": {"runAsNonRoot": True}, "containers": [{"name": "a",
               "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}}),
        ("restricted", 8, 24, _pod(OF_WINDOWS)),
        ("restricted", 23, 34, _pod(USER_NAMESPACE, ROOT)),
        ("restricted", 23, 37, _pod("{}", ROOT)),
        # an ephemeral container is one too
        ("baseline", 0, 37, _pod("{ephemeralContainers: [{name: b, securityContext: {privileged: true}}]}")),
        ("baseline", 0, 37, _pod("{initContainers: [{name: b, securityContext: {privileged: true}}]}")),
    ],
)  # fmt: skip
def test_what_a_version_refuses(level: str, first: int, last: int, pod: dict[str, Data]) -> None:
    refusing = [minor for minor in range(38) if messages(pod, level, minor)]
    assert refusing == list(range(first, last + 1))


@pytest.mark.parametrize(
    "pod",
    [
        _pod("{}", f"{{securityContext: {{{SAFE}}}}}"),
        # what is null says nothing
        _pod("{hostNetwork: null, volumes: [{name: a, emptyDir: {}, hostPath: null}]}",
             f"{{securityContext: {{{SAFE}, procMount: null, appArmorProfile: null, seLinuxOptions: null}}, "
             "ports: [{containerPort: 1, hostPort: 0}]}"),
        # a volume that names no source is an emptyDir, and one of an OCI image is allowed
        _pod("{volumes: [{name: a}, {name: b, image: {reference: x}}]}", f"{{securityContext: {{{SAFE}}}}}"),
    ],
)  # fmt: skip
def test_what_no_version_refuses(pod: dict[str, Data]) -> None:
    assert not [(m, level) for m in range(38) for level in LEVELS if messages(pod, level, m)]


@pytest.mark.parametrize("value", [None, 5, [1], [[1]], {"a": [1]}])
def test_a_value_of_another_type_is_the_schema_s(value: Data) -> None:
    """Each field of a pod in turn, whatever is there, ends in hits or in none."""
    whole = _pod(EVERY_FIELD, f"{{ports: [{{hostPort: 1}}], securityContext: {EVERY_CONTEXT}}}")
    for pointer, _ in leaves(whole):
        body = edited(whole, pointer.parts, value)
        for level in LEVELS:
            pod = subject_of(Manifest(body=body), _enforcing(level, 37))
            assert all(hit.message for hit in RULES["TW707"].run(pod))


def edited(data: Data, parts: tuple[str, ...], value: Data) -> Data:
    """A copy with a list or another value at a path; lists are replaced whole."""
    if not parts:
        return value
    return {**data, parts[0]: edited(data[parts[0]], parts[1:], value)}


def test_a_message_is_at_the_field_and_names_the_level() -> None:
    pod = _pod(container="{securityContext: {appArmorProfile: {type: Unconfined}, procMount: Unmasked}}")  # fmt: skip
    hits = list(RULES["TW707"].run(subject_of(Manifest(body=pod), _enforcing("baseline", 37))))
    context = "/spec/containers/0/securityContext"
    assert [(hit.pointer, hit.message) for hit in hits] == [
        (f"{context}/appArmorProfile", "the AppArmor profile Unconfined is refused by baseline pod security"),
        (f"{context}/procMount", "procMount: Unmasked is refused by baseline pod security"),
    ]  # fmt: skip


def test_ids_of_checks_are_there_once_and_overrides_exist() -> None:
    ids = [check.id for check in pod_security.CHECKS]
    assert len(set(ids)) == len(ids)
    baseline = {check.id for check in pod_security.CHECKS if check.level == "baseline"}
    assert {check.overrides for check in pod_security.CHECKS if check.overrides} <= baseline


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        (("apps/v1", "Deployment"), ("spec", "template")),
        (("apps/v1", "StatefulSet"), ("spec", "template")),
        (("batch/v1", "CronJob"), ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_workloads_of_kubernetes_are_held_to_it_too(
    kind: tuple[str, str], at: tuple[str, ...]
) -> None:
    body: dict[str, Data] = {"spec": {"hostPID": True, "containers": [{"name": "a"}]}}
    for key in reversed(at):
        body = {key: body}
    found = messages({"apiVersion": kind[0], "kind": kind[1], **body}, "baseline", 37)
    assert found == ["hostPID is refused by baseline pod security"]


def test_no_namespace_admits_the_containers_of_a_compose_file() -> None:
    services = {"train": {"image": "a:1", "cap_add": ["SYS_ADMIN"], "user": "0"}}
    body = {"kind": "Compose", "spec": {"services": services}}
    (kind,) = [kind for kind in KINDS.values() if not kind.plural]
    body |= {"apiVersion": kind.api_version, "kind": kind.group_kind.kind}
    subject = subject_of(Manifest(body=body), _enforcing("restricted", 37))
    assert subject.templates
    assert not list(RULES["TW707"].run(subject))
