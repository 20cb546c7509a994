"""The checks of the Pod Security Standards, by level and by minor version of Kubernetes.

https://kubernetes.io/docs/concepts/security/pod-security-standards/, and by version
https://github.com/kubernetes/pod-security-admission/tree/8f84a87/policy
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial

from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.subject import Hit
from trainwright.rules.api_server.pods import SECCOMP_OF_CONTAINER, SECCOMP_OF_POD
from trainwright.specs import authored

BASELINE, RESTRICTED = "baseline", "restricted"
_CAPABILITIES = Pointer("/security/capabilities")


@dataclass(frozen=True)
class _Context:
    """A securityContext: that of the pod, or of one of its containers."""

    pointer: str
    body: Mapping[str, Data]
    container: Container | None = None

    def named(self, message: str) -> str:
        return f"{self.container.name}: {message}" if self.container else message


@dataclass(frozen=True)
class _Pod:
    """A pod as the checks see it, and the policy that it is held against."""

    template: PodTemplate
    level: str
    minor: int

    @property
    def spec(self) -> Mapping[str, Data]:
        return self.template.spec

    @cached_property
    def pointer(self) -> str:
        return f"{self.template.pointer}/spec"

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        return (*self.template.containers, *self.template.ephemeral)

    @cached_property
    def own(self) -> _Context:
        """The pod's own securityContext, which applies to all of its containers."""
        return _Context(f"{self.pointer}/securityContext", _security(self.spec))

    @cached_property
    def contexts(self) -> tuple[_Context, ...]:
        """The securityContext of each container."""
        return tuple(
            _Context(f"{each.pointer}/securityContext", _security(each.body), each)
            for each in self.containers
        )

    @property
    def all_contexts(self) -> tuple[_Context, ...]:
        return (self.own, *self.contexts)

    def refused(self, what: str) -> str:
        return f"{what} is refused by {self.level} pod security"


def _security(body: Mapping[str, Data]) -> Mapping[str, Data]:
    return mapping(body.get("securityContext"))


@dataclass(frozen=True)
class Check:
    """One check: the Kubernetes minor version that introduced it, and the pods exempt from it.

    `demands` is true if a pod fails by what it lacks. Windows pods are exempt since the minor
    version `windows`, those in a user namespace since `user_namespace`. A check of `restricted`
    may replace one of `baseline`, named in `overrides`.
    """

    id: str
    level: str
    run: Callable[[_Pod], Iterator[Hit]]
    since: int = 0
    demands: bool = False
    windows: int | None = None
    user_namespace: int | None = None
    overrides: str = ""

    def exempts(self, pod: _Pod) -> bool:
        """Whether a pod need not fulfil the check: on Windows, or with users of its own."""
        is_windows = dig(pod.spec, "os", "name") == "windows"
        is_user_namespace = pod.spec.get("hostUsers") is False
        return any(
            applies and since is not None and pod.minor >= since
            for applies, since in (
                (is_windows, self.windows),
                (is_user_namespace, self.user_namespace),
            )
        )


def violations(template: PodTemplate, level: str, minor: int) -> Iterator[Hit]:
    """Yield every field for which a namespace that enforces a level refuses the pods of a template.

    What is missing is not reported for a template that another object completes.
    """
    pod = _Pod(template, level, minor)
    for check in _checks(level, minor, whole=not template.partial):
        if not check.exempts(pod):
            for hit in check.run(pod):
                yield hit if hit.spec else replace(hit, spec=_authored(pod, hit.pointer))


def _authored(pod: _Pod, pointer: str) -> Pointer:
    """Return the job spec's field that a field of a pod comes from; empty if unknown."""
    inside = Pointer(pointer.removeprefix(pod.pointer) if pointer.startswith(pod.pointer) else "")
    if inside and not inside.parts[0].endswith("ontainers"):  # a TrainJob has one outside its pod
        return authored.of_pod(inside, pod.spec)
    for container in pod.containers:
        if pointer.startswith(f"{container.pointer}/"):
            at = Pointer(pointer.removeprefix(container.pointer))
            field = authored.of_training(at, container.body)
            return Pointer(_holder(container) + field) if field else Pointer()
    return Pointer()


def _holder(container: Container) -> Pointer:
    """Return the position of a container in a job spec; empty for the one that trains."""
    if not container.init:
        return Pointer()
    native = container.sidecar
    return Pointer.of("sidecars" if native else "initContainers", container.name)


@lru_cache(maxsize=128)
def _checks(level: str, minor: int, *, whole: bool) -> tuple[Check, ...]:
    levels = {BASELINE: (BASELINE,), RESTRICTED: (BASELINE, RESTRICTED)}.get(level, ())
    checks = [
        check
        for check in CHECKS
        if check.level in levels and check.since <= minor and (whole or not check.demands)
    ]
    overridden = {check.overrides for check in checks}
    return tuple(check for check in checks if check.id not in overridden)


# --- baseline -------------------------------------------------------------------------------------


@partial(Check, "hostNamespaces", BASELINE)
def _host_namespaces(pod: _Pod) -> Iterator[Hit]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(field) is True:
            yield Hit(Pointer(pod.pointer) / field, pod.refused(field), Pointer.of(field))


@partial(Check, "privileged", BASELINE)
def _privileged(pod: _Pod) -> Iterator[Hit]:
    for context in pod.contexts:
        if context.body.get("privileged") is True:
            yield Hit(f"{context.pointer}/privileged", pod.refused("privileged"))


@partial(Check, "windowsHostProcess", BASELINE)
def _host_process(pod: _Pod) -> Iterator[Hit]:
    for context in pod.all_contexts:
        if dig(context.body, "windowsOptions", "hostProcess") is True:
            pointer = f"{context.pointer}/windowsOptions/hostProcess"
            yield Hit(pointer, pod.refused("hostProcess"))


@partial(Check, "hostPathVolumes", BASELINE)
def _host_paths(pod: _Pod) -> Iterator[Hit]:
    yield from _volumes(pod, lambda source: source != "hostPath")


@partial(Check, "hostPorts", BASELINE)
def _host_ports(pod: _Pod) -> Iterator[Hit]:
    for container in pod.containers:
        for index, port in enumerate(mappings(container.body.get("ports"))):
            if port.get("hostPort"):
                pointer = f"{container.pointer}/ports/{index}/hostPort"
                yield Hit(pointer, pod.refused("hostPort"))


_HANDLERS = (
    *(("livenessProbe",), ("readinessProbe",), ("startupProbe",)),
    *(("lifecycle", "postStart"), ("lifecycle", "preStop")),
)


@partial(Check, "hostProbesAndHostLifecycle", BASELINE, since=34)
def _handler_hosts(pod: _Pod) -> Iterator[Hit]:
    """Yield hosts in probes and hooks: the kubelet would send requests to any host they name."""
    for container in pod.containers:
        for handler in _HANDLERS:
            for way in ("httpGet", "tcpSocket"):
                keys = (*handler, way, "host")
                host = dig(container.body, *keys)
                if host:
                    at = Pointer.of(*Pointer(container.pointer).parts, *keys)
                    yield Hit(at, pod.refused(f"the host {host} of a probe or hook"))


_ADDED = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID"
    " SETPCAP SETUID SYS_CHROOT".split()
)


@partial(Check, "capabilities_baseline", BASELINE)
def _capabilities(pod: _Pod) -> Iterator[Hit]:
    yield from _capabilities_but(_ADDED, pod)


def _capabilities_but(allowed: frozenset[str], pod: _Pod) -> Iterator[Hit]:
    for context in pod.contexts:
        for index, added in enumerate(sequence(dig(context.body, "capabilities", "add"))):
            if text(added) not in allowed:
                pointer = f"{context.pointer}/capabilities/add/{index}"
                yield Hit(pointer, pod.refused(f"the capability {added}"), _CAPABILITIES)


_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_PROFILES = ("RuntimeDefault", "Localhost")


@partial(Check, "appArmorProfile", BASELINE)
def _apparmor(pod: _Pod) -> Iterator[Hit]:
    yield from _profiles(pod, "appArmorProfile", "the AppArmor profile")
    for key, value in pod.template.annotations.items():
        allowed = value in ("", "runtime/default") or text(value).startswith("localhost/")
        if str(key).startswith(_APPARMOR) and not allowed:
            yield _annotation(pod, key, f"the AppArmor profile {value}")


def _profiles(pod: _Pod, field: str, what: str) -> Iterator[Hit]:
    """The profiles of a field that are neither the runtime's own nor a file of the node."""
    for context in pod.all_contexts:
        profile = context.body.get(field)
        if isinstance(profile, dict) and profile.get("type") not in _PROFILES:
            message = profile.get("type") or "without a type"
            yield Hit(Pointer(context.pointer) / field, pod.refused(f"{what} {message}"))


def _annotation(pod: _Pod, key: str, what: str) -> Hit:
    at = Pointer(f"{pod.template.pointer}/metadata/annotations") / key
    return Hit(at, pod.refused(what))


_SECCOMP_FIELD = 19  # annotations said it before this minor


@partial(Check, "seccompProfile_baseline", BASELINE)
def _seccomp(pod: _Pod) -> Iterator[Hit]:
    if pod.minor >= _SECCOMP_FIELD:
        yield from _profiles(pod, "seccompProfile", "the seccomp profile")
        return
    keys = [SECCOMP_OF_POD, *(f"{SECCOMP_OF_CONTAINER}{c.name}" for c in pod.containers)]
    for key in keys:
        value = pod.template.annotations.get(key)
        allowed = value in (None, "runtime/default", "docker/default")
        if not allowed and not text(value).startswith("localhost/"):
            yield _annotation(pod, key, f"the seccomp profile {value}")


@partial(Check, "procMount", BASELINE, user_namespace=35)
def _proc_mount(pod: _Pod) -> Iterator[Hit]:
    for context in pod.contexts:
        mount = context.body.get("procMount")
        if mount not in (None, "Default"):
            yield Hit(f"{context.pointer}/procMount", pod.refused(f"procMount: {mount}"))


_SELINUX_TYPES = {
    0: ("", "container_t", "container_init_t", "container_kvm_t"),
    31: ("container_engine_t",),
}


@partial(Check, "seLinuxOptions", BASELINE)
def _selinux(pod: _Pod) -> Iterator[Hit]:
    allowed = _until(_SELINUX_TYPES, pod.minor)
    for context in pod.all_contexts:
        options = mapping(context.body.get("seLinuxOptions"))
        refused = [field for field in ("user", "role") if options.get(field)]
        if text(options.get("type")) not in allowed:
            refused.append("type")
        for field in refused:
            message = f"the SELinux {field} {options[field]}"
            yield Hit(f"{context.pointer}/seLinuxOptions/{field}", pod.refused(message))


_SYSCTLS = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    37: ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
}


@partial(Check, "sysctls", BASELINE)
def _sysctls(pod: _Pod) -> Iterator[Hit]:
    allowed = _until(_SYSCTLS, pod.minor)
    for index, sysctl in enumerate(mappings(pod.own.body.get("sysctls"))):
        name = text(sysctl.get("name"))
        if name not in allowed:
            yield Hit(f"{pod.own.pointer}/sysctls/{index}", pod.refused(f"the sysctl {name}"))


def _until(values: Mapping[int, tuple[str, ...]], minor: int) -> frozenset[str]:
    """Return the values allowed in a minor version: those added in it, and all earlier ones."""
    return frozenset(v for since, added in values.items() if since <= minor for v in added)


# --- restricted -----------------------------------------------------------------------------------

_SOURCES = frozenset(
    "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected"
    " secret".split()
)


@partial(Check, "restrictedVolumes", RESTRICTED, overrides="hostPathVolumes")
def _restricted_volumes(pod: _Pod) -> Iterator[Hit]:
    yield from _volumes(pod, _SOURCES.__contains__)


def _volumes(pod: _Pod, allowed: Callable[[str], bool]) -> Iterator[Hit]:
    """Yield volumes of refused kinds; one without a kind becomes an emptyDir before admission."""
    for pointer, volume in pod.template.volumes:
        kinds = [key for key, source in volume.items() if key != "name" and source is not None]
        if not any(map(allowed, kinds)):
            spec = Pointer.of("volumes", text(volume.get("name")))
            for kind in kinds:
                yield Hit(Pointer(pointer) / kind, pod.refused(f"a volume of kind {kind}"), spec)


@partial(Check, "allowPrivilegeEscalation", RESTRICTED, since=8, demands=True, windows=25)
def _privilege_escalation(pod: _Pod) -> Iterator[Hit]:
    for context in pod.contexts:
        if context.body.get("allowPrivilegeEscalation") is not False:
            message = "allowPrivilegeEscalation must be false"
            yield Hit(context.pointer, context.named(message))


@partial(
    Check,
    "capabilities_restricted",
    RESTRICTED,
    since=22,
    windows=25,
    overrides="capabilities_baseline",
)
def _restricted_capabilities(pod: _Pod) -> Iterator[Hit]:
    yield from _capabilities_but(frozenset({"NET_BIND_SERVICE"}), pod)


# Upstream it is a part of the one before it.
@partial(Check, "capabilities_dropped", RESTRICTED, since=22, demands=True, windows=25)
def _dropped(pod: _Pod) -> Iterator[Hit]:
    for context in pod.contexts:
        if "ALL" not in sequence(dig(context.body, "capabilities", "drop")):
            yield Hit(context.pointer, context.named("all capabilities must be dropped"))


@partial(Check, "runAsNonRoot", RESTRICTED, demands=True, user_namespace=35)
def _non_root(pod: _Pod) -> Iterator[Hit]:
    whole = pod.own.body.get("runAsNonRoot")
    for context in pod.all_contexts:
        value = context.body.get("runAsNonRoot")
        if value is False:
            message = context.named("runAsNonRoot must be true")
            yield Hit(f"{context.pointer}/runAsNonRoot", message)
        elif value is None and whole is None and context.container:
            yield Hit(context.pointer, context.named("runAsNonRoot must be true"))


@partial(Check, "runAsUser", RESTRICTED, since=23, user_namespace=35)
def _non_root_user(pod: _Pod) -> Iterator[Hit]:
    for context in pod.all_contexts:
        user = context.body.get("runAsUser")
        if user == 0 and user is not False:
            message = context.named("runAsUser must not be 0")
            yield Hit(f"{context.pointer}/runAsUser", message, Pointer("/security/runAsUser"))


@partial(
    Check,
    "seccompProfile_restricted",
    RESTRICTED,
    since=_SECCOMP_FIELD,
    demands=True,
    windows=25,
    overrides="seccompProfile_baseline",
)
def _has_seccomp(pod: _Pod) -> Iterator[Hit]:
    whole = pod.own.body.get("seccompProfile")
    for context in pod.all_contexts:
        profile = context.body.get("seccompProfile")
        message = context.named("seccompProfile must be RuntimeDefault or Localhost")
        if profile is not None and dig(profile, "type") not in _PROFILES:
            yield Hit(f"{context.pointer}/seccompProfile", message)
        elif profile is None and whole is None and context.container:
            yield Hit(context.pointer, message)


# Unlike the baseline check that it overrides, this one holds in user namespaces too.
_restricted_proc_mount = replace(
    _proc_mount,
    id="procMount_restricted",
    level=RESTRICTED,
    since=35,
    user_namespace=None,
    overrides="procMount",
)
CHECKS = tuple(value for value in tuple(globals().values()) if isinstance(value, Check))
