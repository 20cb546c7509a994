"""A complete job spec for a run, made from the run and its first pod."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, digits, mappings, sequence, stated, text
from trainwright.datatypes.durations import clock
from trainwright.datatypes.environment import Environment, Pool
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.job import AMOUNTS, CONTAINER_FIELDS, JOB_FIELDS, POD_FIELDS, Ready
from trainwright.datatypes.pointer import Pointer, scalars
from trainwright.documents.yamlio import Block
from trainwright.findings.credentials import HIDDEN, named, redact
from trainwright.findings.redaction import redact_words
from trainwright.importing import companions, containers, role_names
from trainwright.importing.choice import Choice, choices
from trainwright.importing.equivalence.form import NormalForm
from trainwright.importing.generated import is_generated
from trainwright.importing.names import OWN_NAME, RUN, Names, referring
from trainwright.importing.role_names import port_of
from trainwright.importing.source import Source
from trainwright.importing.trial import ImportContext
from trainwright.kinds import TARGETS, operators
from trainwright.objects.kueue import TOPOLOGY
from trainwright.objects.pods import command as commands
from trainwright.objects.pods.flags import Mention, parse_arguments
from trainwright.objects.pods.image_reference import in_spec
from trainwright.objects.pods.launchers import LAUNCHERS, SWITCH
from trainwright.objects.pods.pod import Pod, Workload
from trainwright.objects.pods.probes import patience
from trainwright.specs import fields, layers
from trainwright.specs.merge import without_nulls

_API = {"apiVersion": "trainwright.io/v1alpha1", "kind": "JobSpec"}
_TOPOLOGIES = dict(zip(("required", "preferred"), TOPOLOGY, strict=False))
_OWN_LABELS = ("app.kubernetes.io/", "trainwright.io/", "helm.sh/")


def spec(source: Source, run: NormalForm, place: ImportContext, choice: Choice) -> dict[str, Data]:
    """Return everything that a job spec can say about a run, with keys in the schema's order."""
    draft = _Draft(source, place, choice)
    entries: dict[str, Data] = {
        **_API,
        "name": source.name,
        "target": draft.target if draft.target != place.inherited["target"] else None,
        **draft.group(source.pod(), run),
        "roles": {name: draft.role(name, run) for name in run.roles},
    }
    ordered = {key: entries.get(key) for key in (*_API, *JOB_FIELDS)}
    without: dict[str, Data] = _without_credentials(stated(ordered))
    return without


@dataclass(frozen=True)
class _Draft:
    """One way to write the spec of a workload for an environment."""

    source: Source
    place: ImportContext
    choice: Choice

    @cached_property
    def target(self) -> str:
        """The target of the same kind, or the one that the environment's jobs have."""
        own = self.source.target
        return own if own in self.place.environment.targets else self.place.inherited["target"]

    @cached_property
    def workload(self) -> Workload:
        return self.source.workload()

    @cached_property
    def names(self) -> Names:
        return Names.of(self.workload)

    def literal(self, text: str) -> str:
        """Return a text as the target needs it: with references for names, and with `$$` unescaped
        if the target is no cluster, which replaces nothing.
        """
        target = TARGETS[self.target]
        plain = text.replace("$$", "$") if target.envelope else text
        # Text that looks like a reference of a spec was not meant as one.
        plain = plain.replace("${{", "$${{").replace(OWN_NAME, RUN)
        written = role_names.referring(plain, self.workload)
        return referring(written, self.names, target.numbered)

    def variable(self, text: str) -> str:
        return RUN if self.names.is_run(text) else self.literal(text)

    def role(self, name: str, run: NormalForm) -> dict[str, Data]:
        """Return the fields of a role in the spec."""
        pod, served, choice = self.workload.of_role(name)[0], run.roles[name], self.choice
        (first, *_) = choices(self.place.environment, pod, "")
        requested = {**pod.resources.get("requests", {}), **pod.resources.get("limits", {})}
        of_job = choice.pool is not None and choice.pool.resource in requested
        own = Choice(pool=choice.pool if of_job else first.pool, apart=choice.apart)
        alone = replace(run, pods=served.pods, nodes=served.nodes, roles={}, elastic=None)
        group = {**replace(self, choice=own).group(pod, alone), **_serving(pod)}
        if own.pool == choice.pool:
            del group["pool"]
        allowed = fields.field("job", Pointer.of("roles", name)).keys
        own_fields = stated({key: group.get(key) for key in allowed})
        return {**own_fields, "pool": None} if choice.pool and own.pool is None else own_fields

    def group(self, pod: Pod, run: NormalForm) -> dict[str, Data]:
        """Return the fields of a spec for the pods that train, or for those of a role."""
        source, literal, pool = self.source, self.literal, self.choice.pool
        manifests = source.manifests()
        configs = operators.configs(manifests)
        own_script = companions.started(pod) if companions.script(run) else ""
        files = companions.files(manifests, pod, literal)
        of_pod = _labels({**pod.labels, **run.pods[0].labels})
        return {
            "image": _image(pod, run),
            **_program(tuple(map(literal, pod.command)), run, apart=self.choice.apart),
            "nodes": run.nodes,
            "procsPerNode": _processes(run),
            "elastic": {"minNodes": run.elastic[0], "maxNodes": run.elastic[1]}
            if run.elastic
            else {},
            "pool": pool.name if pool else None,
            "resources": _resources(pod, pool),
            "resourceClaims": _device_claims(pod),
            "shm": containers.shared_memory(pod),
            "env": dict(containers.variables(pod, self.variable)),
            "envFrom": containers.sources(pod.env_from),
            "secrets": companions.secrets(manifests, pod),
            "volumes": dict(containers.volumes(pod, lambda mount: mount.config in configs)),
            # Of ConfigMaps, except the script that is the spec's entrypoint.
            "files": {path: file for path, file in files.items() if path != own_script},
            "initContainers": dict(containers.init(pod, literal)),
            "sidecars": dict(containers.sidecars(pod, literal)),
            **_waiting(run, pod, self.place.environment),
            "maxDuration": duration(run.deadline),
            "retries": _retries(source, run),
            "gracePeriod": duration(pod.grace_period) if _says_grace_period(source) else None,
            "state": "suspended" if run.suspended else None,
            **_placement(pod, pool),
            **_given(pod),
            "labels": _labels(run.labels),
            "podLabels": {k: v for k, v in of_pod.items() if run.labels.get(k) != v},
            "podAnnotations": _annotations({**pod.annotations, **run.pods[0].annotations}),
            "annotations": {k: v for k, v in run.annotations.items() if not is_generated(k)},
            "serviceAccount": pod.service_account,
            "serviceAccountToken": pod.token or None,
            "network": "isolated" if run.isolated else None,
            "metrics": companions.metrics(manifests, pod),
            "security": _security(run, pod),
            "podPatch": _patch(pod, self.target),
            "lattice": dict(run.own),
        }


def _serving(pod: Pod) -> dict[str, Data]:
    """Return the port of a role's pods, and the check that tells when they are ready."""
    container = pod.rest.get("container", {})
    probe = container.get("readinessProbe") or {}
    started = container.get("startupProbe") or {}
    within = patience(started)
    ready = {
        "path": dig(probe, "httpGet", "path"),
        "command": dig(probe, "exec", "command"),
        "within": duration(within) if started else None,
    }
    settings = {key: value for key, value in ready.items() if value}
    known = settings.keys() - {"within"} or ("tcpSocket" in probe and within != Ready().within)
    return {"port": port_of(pod), "ready": settings if known else None}


def complete(spec: Mapping[str, Data], place: ImportContext) -> dict[str, Data]:
    """Return the spec with a null for everything that it would inherit but does not set."""
    completed = {**spec, **_completed(spec, place.inherited_in(spec.get("pool") or ""))}
    roles = {name: _complete_role(name, completed, place) for name in spec.get("roles", {})}
    return {**completed, **({"roles": roles} if roles else {})}


def _complete_role(name: str, spec: Mapping[str, Data], place: ImportContext) -> dict[str, Data]:
    """Return a role with a null for everything that it would inherit from its job."""
    own_fields = spec["roles"][name]
    pool = {key: value for key, value in own_fields.items() if key == "pool"}
    above = place.layered({**spec, "roles": {name: pool}})
    inherited = without_nulls(layers.of_role(above, name).data)
    allowed = fields.field("job", Pointer.of("roles", name)).keys.keys() - {"pool"}
    theirs = {key: inherited[key] for key in sorted(allowed) if inherited.get(key) is not None}
    return {**own_fields, **_completed(own_fields, theirs)}


# Without them there is no job, so that they can only be said otherwise and not be removed.
_NEEDED = frozenset(
    {"apiVersion", "kind", "target", "launcher", "retries", "gracePeriod", "run", "state"}
)


def _completed(own: Mapping[str, Data], inherited: Mapping[str, Data]) -> dict[str, Data]:
    """Return values with a null for each that they inherit; those that are there already stay."""
    filled: dict[str, Data] = {}
    for key, value in inherited.items():
        if key in _NEEDED:
            continue
        if isinstance(value, Mapping) and isinstance(own.get(key), Mapping):
            filled[key] = _completed(own[key], value)
        elif key not in own:
            filled[key] = None
    return {**filled, **{key: value for key, value in own.items() if key not in filled}}


# --- parts ---------------------------------------------------------------------------------------


def _image(pod: Pod, run: NormalForm) -> dict[str, Data]:
    pulled = {"pullPolicy": run.pods[0].pull_policy, "pullSecrets": list(pod.pull_secrets)}
    return {**in_spec(run.pods[0].image), **stated(pulled)}


def _program(words: tuple[str, ...], run: NormalForm, *, apart: bool) -> dict[str, Data]:
    """Return launcher, entrypoint and flags, or the whole command if it cannot be taken apart."""
    program = run.pods[0].program
    if program.launcher == "image":
        given = {"args": [_typed(word) for word in words]} if words else {}
        return {"entrypoint": {"image": True, **given}}
    command = commands.parse(words)
    launcher = {"none": "python"}.get(command.launcher, command.launcher)
    bare = program.interpreter in ((), ("python",))
    options = _launcher_options(command, launcher)
    if not apart or command.program is None or launcher == "tool" or not bare or options is None:
        return {"entrypoint": {"argv": list(words)}}
    key = "module" if command.is_module else "script"
    inline = companions.script(run)
    started = {"inline": Block(inline)} if inline else {key: words[command.program]}
    arguments, flags = _arguments(words[command.program + 1 :])
    return {
        "entrypoint": {**started, **({"args": arguments} if arguments else {})},
        "launcher": launcher,
        "launcherOptions": options,
        **flags,
        "backend": command.options.get("backend"),
        "preflight": commands.read_preflight(command.options.get("preflight", "")),
    }


def _launcher_options(command: commands.Command, launcher: str) -> dict[str, Data] | None:
    """Return the launcher options that other fields do not imply; None if a job cannot set one."""
    definition = LAUNCHERS.get(launcher)
    if definition is None:
        return {}
    names = [name for name in command.options if name not in definition.decided]
    if any(name not in definition.options for name in names):
        return None
    options = {
        name: True if definition.options[name] == SWITCH else _typed(command.options[name])
        for name in names
    }
    # What does not fit follows from another field: --recovery=live.
    return {
        name: value
        for name, value in options.items()
        if definition.problem(name, value) == ("", "")
    }


def _arguments(words: tuple[str, ...]) -> tuple[list[Data], dict[str, Data]]:
    """Return arguments as words and flags of one style; all as words if their styles differ."""
    parsed = parse_arguments(words)
    forms = {_flag_form(name) for name in parsed.flags}
    flags = {
        name.removesuffix("=").removeprefix("-"): _flag(given)
        for name, given in parsed.flags.items()
    }
    if len(forms) > 1 or None in flags.values():
        return [_typed(word) for word in words], {}
    style = "".join(forms - {"--k=v"})
    return [_typed(word) for word in parsed.words], {"flags": flags, "flagStyle": style}


def _flag_form(name: str) -> str:
    if name.endswith("="):
        return "k=v"
    return "-k=v" if name.startswith("-") else "--k=v"


def _flag(given: tuple[Mention, ...]) -> Data:
    """Return a flag's value in the type that people would write, if it is printed the same; None if
    no value can express it.
    """
    if not given:
        return True
    if len(given) == 1 and isinstance(given[0], str):
        return _typed(given[0])
    if len(given) == 1:
        return {"words": [_typed(word) for word in given[0]]}
    words = [_typed(word) for word in given if isinstance(word, str)]
    return {"repeat": words} if len(words) == len(given) else None


_INTEGER = re.compile(r"0|-?[1-9]\d{0,14}")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+")


def _typed(word: str) -> Data:
    if _INTEGER.fullmatch(word):
        return int(word)
    if _DECIMAL.fullmatch(word) and str(float(word)) == word:
        return float(word)
    return word


def _processes(run: NormalForm) -> int:
    """Return the processes per node: those that are started, or as many as fit the world size."""
    started = len(run.pods[0].processes)
    world = run.pods[0].processes[0].world_size if started == 1 else None
    return max(1, world // run.nodes) if world and not run.elastic else max(1, started)


def _resources(pod: Pod, pool: Pool | None) -> dict[str, Data]:
    """Return what a pod requests, with the accelerators of a pool as `gpu`."""
    limits = pod.resources.get("limits", {})
    requested = {**limits, **pod.resources.get("requests", {})}
    resources: dict[str, Data] = {
        "cpu": requested.get("cpu"),
        **{AMOUNTS[name]: requested.get(name) for name in _LIMITED if name in limits},
        "requests": {
            AMOUNTS[n]: requested[n] for n in _LIMITED if n in requested and n not in limits
        },
        "limits": {field: limits[name] for name, field in AMOUNTS.items() if name in limits},
    }
    extended = {name: count for name, count in requested.items() if "/" in name}
    if pool and pool.resource in extended:
        count = quantity.count(extended.pop(pool.resource))
        resources["gpu"] = pool.gpus_per_node or 1 if count is None else count
    resources["hugepages"] = {
        name.removeprefix(_HUGEPAGES): amount
        for name, amount in requested.items()
        if name.startswith(_HUGEPAGES)
    }
    counts = {name: quantity.count(amount) for name, amount in extended.items()}
    resources["extended"] = {name: count for name, count in counts.items() if count}
    return stated(resources)


_HUGEPAGES = "hugepages-"
_LIMITED = ("memory", "ephemeral-storage")  # a spec's own field for it also sets the limit


def _device_claims(pod: Pod) -> dict[str, Data]:
    """Return the pod's resource claims by name, with the request that its container uses."""
    of_container = mappings(pod.rest.get("container", {}).get("claims"))
    used = {text(claim.get("name")): claim for claim in of_container}
    claims = {}
    for claim in mappings(pod.rest.get("pod", {}).get("resourceClaims")):
        name = text(claim.get("name"))
        written = {
            "template": claim.get("resourceClaimTemplateName"),
            "claim": claim.get("resourceClaimName"),
            "request": used.get(name, {}).get("request"),
        }
        if name in used:
            claims[name] = {key: value for key, value in written.items() if value}
    return claims


def _waiting(run: NormalForm, pod: Pod, place: Environment) -> dict[str, Data]:
    """Return where a run waits for its nodes, and for which of them."""
    topology = {
        kind: pod.annotations[key] for kind, key in _TOPOLOGIES.items() if key in pod.annotations
    }
    gangs = place.queueing in ("volcano", "coscheduling")
    return {
        "queue": run.queue,
        "queuePriority": run.queue_priority,
        "topology": topology,
        "gang": True if run.gang and gangs else None,
    }


# The API server's default for a Job that does not set it.
# https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy
_RETRIES = 6
_MOST_RETRIES = 10_000  # of the schema


def _retries(source: Source, run: NormalForm) -> int | None:
    """Return a run's retries. If unlimited: PET_MAX_RESTARTS, or what a Job has by default."""
    limit = run.pods[0].restart.limit
    if limit == "unlimited":
        written = dict(source.pod().env).get("PET_MAX_RESTARTS", "")
        number = digits(written)
        return _RETRIES if number is None else min(number, _MOST_RETRIES)
    return max(1, limit // run.nodes) if limit and _counts_pods(source) else limit


def _counts_pods(source: Source) -> bool:
    """Whether pods that fail along with one count towards the limit, as the target declares."""
    deviations = TARGETS[source.target].deviations
    return any("/pods/*/restart/limit" in deviation.fields for deviation in deviations)


_GRACE = ("terminationGracePeriodSeconds", "stop_grace_period")


def _says_grace_period(source: Source) -> bool:
    """Whether people chose the grace period; a spec's default leaves more time for a checkpoint."""
    return TARGETS[source.target].envelope is not None or any(
        pointer.last in _GRACE for part in source.parts for pointer, _ in scalars(part.body)
    )


def duration(seconds: int | None) -> str | None:
    """Return seconds as people write them, or None for 0: 5400 is "1h30m"."""
    return clock(seconds, "s" if seconds < 120 else "hms") if seconds else None


def _placement(pod: Pod, pool: Pool | None) -> dict[str, Data]:
    """Return the pod's selectors, tolerations and affinity that its pool does not provide."""
    selector = pod.placement.get("nodeSelector", {})
    tolerations = pod.placement.get("tolerations", [])
    if pool:
        selector = {k: v for k, v in selector.items() if pool.node_selector.get(k) != v}
        tolerations = [t for t in tolerations if t not in pool.tolerations]
    return {
        "nodeSelector": selector,
        "tolerations": tolerations,
        "affinity": pod.placement.get("affinity", {}),
    }


def _given(pod: Pod) -> dict[str, Data]:
    """Return the fields of pod and container that a spec takes over, by their names in a spec."""
    of_pod = {**pod.placement, **pod.rest.get("pod", {})}
    of_container = pod.rest.get("container", {})
    if of_pod.get("hostNetwork"):  # where a spec has another default
        of_pod = {"dnsPolicy": "ClusterFirst", **of_pod}
    return {
        **{spelled(name): of_pod.get(key) for name, key in POD_FIELDS.items()},
        **{spelled(name): of_container.get(key) for name, key in CONTAINER_FIELDS.items()},
    }


# Fields that the cluster writes into pods, or that a target decides.
_NOT_PATCHED = frozenset({"ephemeralContainers", "hostname", "nodeName", "priority"})


def _patch(pod: Pod, target: str) -> dict[str, Data]:
    """Return a podPatch, the last resort, for what neither spec fields nor the target set."""
    handled = {*POD_FIELDS.values(), *_NOT_PATCHED}
    of_pod = {
        k: v for k, v in pod.rest.get("pod", {}).items() if k not in handled and v is not None
    }
    own = {*CONTAINER_FIELDS.values(), *_OF_RESOURCES}
    rest = pod.rest.get("container", {})
    of_container = {k: v for k, v in rest.items() if k not in own and v is not None}
    if of_container:
        name = TARGETS[target].container
        of_pod["containers"] = [{"name": name, **of_container}] if name else []
    return {"spec": of_pod} if any(of_pod.values()) else {}


# Fields read from a container's resources, ports and volumes, in addition to its own.
_OF_RESOURCES = frozenset({"claims", "hostPorts", "volumeDevices"})


def _annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that people write, except a topology, which has its own field."""
    of_fields = _TOPOLOGIES.values()
    return {k: v for k, v in annotations.items() if k not in of_fields and not is_generated(k)}


def _labels(labels: Mapping[str, str]) -> dict[str, Data]:
    return {
        key: value
        for key, value in labels.items()
        if not key.startswith(_OWN_LABELS) and not is_generated(key)
    }


_PROFILES = ("seccompProfile", "appArmorProfile", "seLinuxOptions", "sysctls", "supplementalGroups")
_SWITCHES = ("privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem")


def _security(run: NormalForm, pod: Pod) -> dict[str, Data]:
    """Return the user, rights and profiles that a pod sets."""
    context = run.pods[0].security
    security = {key: context.get(key) for key in ("runAsUser", "runAsGroup", "fsGroup")}
    added = sequence(dig(context, "capabilities", "add"))
    security["capabilities"] = [text(name).removeprefix("CAP_") for name in added] or None
    # Only what is written: some of it would hold anyway, and a spec has defaults of its own.
    written = {**pod.security.get("pod", {}), **pod.security.get("container", {})}
    security |= {key: True for key in _SWITCHES if written.get(key) is True}
    security |= {key: written[key] for key in _PROFILES if written.get(key)}
    security["runAsNonRoot"] = written.get("runAsNonRoot")
    return {key: value for key, value in security.items() if value is not None}


def _without_credentials(data: Data, name: str = "") -> Data:
    """Return data without values that look like credentials; in a list each is hidden."""
    if isinstance(data, Mapping):
        kept = {key: _without_credentials(value, key) for key, value in data.items()}
        return {key: value for key, value in kept.items() if value is not _GAP}
    if isinstance(data, list):
        return [
            _hidden(item, name) if isinstance(item, str) else _without_credentials(item, name)
            for item in redact_words(data)
        ]
    return _GAP if isinstance(data, str) and _hidden(data, name) != data else data


def _hidden(text: str, name: str) -> str:
    return HIDDEN if named(name, text) else redact(text)


_GAP = object()
