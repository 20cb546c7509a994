"""A merged, schema-valid spec into a typed `Job`, once everything it names exists and agrees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings import diagnostics as dx
from trainwright.model import (
    Budget,
    ChartSource,
    Checkpoint,
    Claim,
    Data,
    Destination,
    Elastic,
    Entrypoint,
    Environment,
    ExternalSecret,
    Finding,
    GitOps,
    Image,
    Job,
    Lattice,
    Metrics,
    Pool,
    Related,
    Repository,
    Resources,
    SecretKey,
    Security,
    Severity,
    SeverityOverride,
    TargetOptions,
    Topology,
    Volume,
    Waiver,
)
from trainwright.pods.launch import SCRIPT_FOLDER
from trainwright.pointer import Pointer
from trainwright.specs import schema
from trainwright.specs.load import LoadedEnvironment
from trainwright.specs.merge import Layered, merge
from trainwright.specs.yamlio import Document

MAX_GRACE = 7 * 24 * 3600  # seconds: as long a pod that is deleted may keep its node
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds(duration: str) -> int:
    """A duration such as "1h30m" in seconds."""
    match = _DURATION.fullmatch(duration)
    assert match is not None, "the schema lets only durations through"
    days, hours, minutes, rest = (int(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


# --- environment.yaml --------------------------------------------------------------------------


def loaded(found: LoadedEnvironment) -> Environment | None:
    """An environment with what defaults.yaml says for it; None when its own file is not usable."""
    if found.document is None:
        return None
    shared = next((layer for layer in found.layers if layer.label == "defaults"), None)
    gitops = shared.document.data.get("gitops") if shared else None
    return environment(found.name, found.document, gitops)


def environment(
    name: str, document: Document, shared: Mapping[str, Data] | None = None
) -> Environment:
    """A schema-valid environment.yaml as a value; a null is as good as an absent key.

    `shared` is the `gitops` of defaults.yaml, which decides no rendered byte: it says where things
    are, the chart that an engine renders among them.
    """
    data: Any = merge({}, document.data)
    images = data.get("images", {})
    return Environment(
        name=name,
        namespace=data["namespace"],
        place=document.place(""),
        kubernetes_version=data["kubernetes"]["version"],
        kube_context=data["kubernetes"].get("context", ""),
        targets={key: target(value or {}) for key, value in data["targets"].items()},
        gitops=_gitops(merge(shared or {}, data.get("gitops", {}))),
        require_digest=images.get("requireDigest", False),
        registries=tuple(images.get("registries", ())),
        pools=pools(data.get("pools", {})),
        queueing=data.get("queueing", "none"),
        kueue_version=data.get("kueue", {}).get("version", ""),
        queues={key: (value or {}).get("quota") for key, value in data.get("queues", {}).items()},
        budget=_budget(data.get("budget", {})),
        secrets=tuple(data.get("secrets", {})),
        pod_security=data.get("podSecurity", "restricted"),
        service_mesh=data.get("serviceMesh", "none"),
        shared_changes=data.get("sharedChanges", "hold"),
        severities={
            key: SeverityOverride(
                Severity(value), document.key_place(Pointer.of("severities", key))
            )
            for key, value in data.get("severities", {}).items()
        },
        waivers=tuple(
            Waiver(
                rule=waiver["rule"],
                job=waiver.get("job", "*"),
                reason=waiver["reason"],
                until=waiver["until"],
                place=document.place(f"/waivers/{index}"),
            )
            for index, waiver in enumerate(data.get("waivers", ()))
        ),
    )


def _budget(data: Mapping[str, Data]) -> Budget:
    return Budget(gpu_hours=data.get("gpuHours"), cost=data.get("cost"))


def _gitops(data: Mapping[str, Data]) -> GitOps:
    repository, chart = data.get("repository", {}), data.get("chart", {})
    destination = data.get("destination", {})
    return GitOps(
        engine=data.get("engine", "argocd"),
        mode=data.get("mode", "rendered"),
        prune=data.get("prune", "confirm"),
        applications=data.get("applications", "job"),
        name=data.get("name", ""),
        namespace=data.get("namespace", ""),
        project=data.get("project", ""),
        service_account=data.get("serviceAccount", ""),
        repository=Repository(
            url=repository.get("url", ""),
            revision=repository.get("revision", "main"),
            path=repository.get("path", ""),
            secret=repository.get("secret", ""),
        ),
        chart=ChartSource(
            oci=chart.get("oci", ""),
            version=chart.get("version", ""),
            url=chart.get("url", ""),
            revision=chart.get("revision", ""),
            path=chart.get("path", ""),
            secret=chart.get("secret", ""),
        ),
        destination=Destination(
            server=destination.get("server", ""), name=destination.get("name", "")
        ),
        notifications={
            service: {trigger: tuple(to) for trigger, to in triggers.items()}
            for service, triggers in data.get("notifications", {}).items()
        },
    )


_NO_OPTIONS = TargetOptions()


def target(data: Mapping[str, Data], below: TargetOptions = _NO_OPTIONS) -> TargetOptions:
    """One of the `targets` of an environment.yaml; what it does not set is as `below`."""
    rendezvous = data.get("rendezvous", {})
    return TargetOptions(
        version=data.get("version", below.version),
        restricted_init_container=data.get(
            "restrictedInitContainer", below.restricted_init_container
        ),
        rendezvous_backend=rendezvous.get("backend", below.rendezvous_backend),
        rendezvous_endpoint=rendezvous.get("endpoint", below.rendezvous_endpoint),
        runtime=data.get("runtime", below.runtime),
    )


def pools(data: Mapping[str, Data]) -> dict[str, Pool]:
    """The `pools` of an environment.yaml."""
    return {name: _pool(name, pool or {}) for name, pool in data.items()}


def _pool(name: str, data: Mapping[str, Data]) -> Pool:
    return Pool(
        name=name,
        resource=data.get("resource", ""),
        tolerations=tuple(data.get("tolerations", ())),
        node_selector=data.get("nodeSelector", {}),
        gpus_per_node=data.get("gpusPerNode"),
        capacity=data.get("capacity"),
        price_per_gpu_hour=data.get("pricePerGpuHour"),
        spot=data.get("spot", False),
    )


# --- the job -----------------------------------------------------------------------------------


def job(spec: Layered, place: Environment, source: str) -> Job | tuple[Finding, ...]:
    """The job, or every reason why there can be none."""
    findings = tuple(_problems(spec, place))
    return findings or typed(spec, place, source)


def typed(spec: Layered, place: Environment, source: str) -> Job:
    """A spec that the schema accepts as a value, whatever it refers to."""
    data: Any = spec.data
    resources = _resources(data.get("resources", {}))
    elastic = data.get("elastic")
    procs = data.get("procsPerNode", "auto")
    backend = data.get("backend", "auto")
    duration = data.get("maxDuration")
    return Job(
        name=data["name"],
        environment=place.name,
        source=source,
        target=data["target"],
        namespace=place.namespace,
        image=_image(data["image"]),
        entrypoint=_entrypoint(data["entrypoint"]),
        launcher=data["launcher"],
        flags=data.get("flags", {}),
        nodes=_nodes(data),
        procs_per_node=(resources.gpu or 1) if procs == "auto" else procs,
        backend=("nccl" if resources.gpu else "gloo") if backend == "auto" else backend,
        resources=resources,
        pool=place.pools.get(data.get("pool", "")),
        elastic=_elastic(elastic) if elastic else None,
        shm=data.get("shm", "auto"),
        env=data.get("env", {}),
        secrets={key: _secret(value) for key, value in data.get("secrets", {}).items()},
        volumes=tuple(_volume(key, value) for key, value in sorted(_map(data, "volumes").items())),
        checkpoint=_checkpoint(data.get("checkpoint")),
        queue=data.get("queue", ""),
        queue_priority=data.get("queuePriority", ""),
        topology=Topology(**data["topology"]) if "topology" in data else None,
        gang=data.get("gang") or None,
        priority_class=data.get("priorityClass", ""),
        max_duration=seconds(duration) if duration else None,
        retries=data["retries"],
        grace_period=seconds(data["gracePeriod"]),
        run=data["run"],
        state=data["state"],
        node_selector=_map(data, "nodeSelector"),
        tolerations=tuple(data.get("tolerations", ())),
        affinity=_map(data, "affinity"),
        labels=_map(data, "labels"),
        annotations=_map(data, "annotations"),
        service_account=data.get("serviceAccount", ""),
        create_service_account=data.get("createServiceAccount") or None,
        network="isolated" if data.get("network") == "isolated" else "",
        metrics=Metrics(port=data["metrics"]["port"]) if "metrics" in data else None,
        security=_security(_map(data, "security")),
        lattice=_lattice(_map(data, "lattice")),
        waivers=tuple(_waivers(spec)),
    )


def _map(data: Any, key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = data.get(key, {})
    return found


def _elastic(data: Mapping[str, Any]) -> Elastic:
    return Elastic(
        min_nodes=data["minNodes"],
        max_nodes=data["maxNodes"],
        recovery="live" if data.get("recovery") == "live" else "",
    )


def _nodes(data: Any) -> int:
    """Nodes at the start: as written, else as many as the elastic range allows, else one."""
    nodes: int = data.get("nodes") or data.get("elastic", {}).get("maxNodes", 1)
    return nodes


def _image(data: Any) -> Image:
    return Image(
        repository=data["repository"],
        tag=data.get("tag", ""),
        digest=data.get("digest", ""),
        pull_policy=data.get("pullPolicy", "IfNotPresent"),
        pull_secrets=tuple(data.get("pullSecrets", ())),
    )


def _entrypoint(data: Any) -> Entrypoint:
    return Entrypoint(
        module=data.get("module", ""),
        script=data.get("script", ""),
        argv=tuple(data.get("argv", ())),
        inline=data.get("inline", ""),
    )


def _resources(data: Any) -> Resources:
    limits = data.get("limits", {})
    return Resources(
        cpu=data.get("cpu", ""),
        memory=data.get("memory", ""),
        ephemeral_storage=data.get("ephemeralStorage", ""),
        gpu=data.get("gpu", 0),
        extended=data.get("extended", {}),
        limit_cpu=limits.get("cpu", ""),
        limit_memory=limits.get("memory", ""),
    )


def _volume(name: str, data: Any) -> Volume:
    return Volume(
        name=name,
        mount_path=data["mountPath"],
        source=_source(data),
        sub_path=data.get("subPath", ""),
        read_only=data.get("readOnly", False),
        create=_claim(data["create"]) if "create" in data else None,
    )


def _claim(data: Any) -> Claim:
    return Claim(
        size=data["size"],
        storage_class=data.get("storageClass", ""),
        access_modes=tuple(data.get("accessModes", ())),
    )


def _source(data: Any) -> dict[str, Data]:
    """The Kubernetes volume source of a volume's short form."""
    if "claim" in data:
        return {"persistentVolumeClaim": {"claimName": data["claim"]}}
    if "configMap" in data:
        return {"configMap": {"name": data["configMap"]}}
    if "secret" in data:
        return {"secret": {"secretName": data["secret"]}}
    return {key: dict(data[key]) for key in ("hostPath", "emptyDir", "nfs") if key in data}


def _secret(data: Any) -> SecretKey:
    external = data.get("external")
    if external:
        return SecretKey(external=ExternalSecret(**external))
    return SecretKey(name=data["name"], key=data["key"])


def _checkpoint(data: Any) -> Checkpoint | None:
    if not data:
        return None
    return Checkpoint(
        volume=data["volume"],
        path=data["path"],
        every=data.get("every"),
        keep=data.get("keep"),
        resume_from=data.get("resumeFrom", ""),
    )


def _security(data: Mapping[str, Any]) -> Security:
    return Security(
        run_as_user=data.get("runAsUser"),
        run_as_group=data.get("runAsGroup"),
        fs_group=data.get("fsGroup"),
        capabilities=tuple(data.get("capabilities", ())),
    )


def _lattice(data: Mapping[str, Any]) -> Lattice:
    return Lattice(
        inject=data.get("inject"),
        framework=data.get("framework", "pytorch"),
        priority=data.get("priority", 0),
    )


def _waivers(spec: Layered) -> Iterator[Waiver]:
    waivers: Any = spec.data.get("waivers", {})
    for rule, waiver in waivers.items():
        yield Waiver(
            rule=rule,
            reason=waiver["reason"],
            until=waiver["until"],
            place=spec.key_origin(Pointer.of("waivers", rule)),
        )


# --- what no schema can see --------------------------------------------------------------------


def _problems(spec: Layered, place: Environment) -> Iterator[Finding]:
    yield from _references(spec, place)
    yield from _queueing(spec, place)
    yield from _elastic_range(spec)
    yield from _accelerators(spec, place)
    yield from _mounts(spec)
    yield from _grace(spec)
    yield from _affinity(spec, place)


def _at(kind: dx.Diagnostic, spec: Layered, at: Pointer, message: str, **more: Any) -> Finding:
    return kind.at(spec.origin(at), message, path=at, **more)


def _known(names: Mapping[str, object] | tuple[str, ...], what: str) -> str:
    if not names:
        return f"Declare it in environment.yaml; it has no {what} yet."
    return f"Use one of {', '.join(sorted(names))}, or declare it in environment.yaml."


def _references(spec: Layered, place: Environment) -> Iterator[Finding]:
    data: Any = spec.data
    target, pool, queue = data["target"], data.get("pool"), data.get("queue")
    if target not in place.targets:
        message = f'the target "{target}" is not installed in {place.name}'
        yield _at(
            dx.REFERENCE, spec, Pointer("/target"), message, remedy=_known(place.targets, "targets")
        )
    if pool is not None and pool not in place.pools:
        message = f'the pool "{pool}" does not exist in {place.name}'
        yield _at(
            dx.REFERENCE, spec, Pointer("/pool"), message, remedy=_known(place.pools, "pools")
        )
    if queue is not None and place.queueing in ("none", "coscheduling"):
        lacks = "queueing" if place.queueing == "none" else "queues, only gangs"
        message = f'the queue "{queue}" is asked for, but {place.name} has no {lacks}'
        remedy = "Set queueing in environment.yaml, or remove the queue (queue: null)."
        yield _at(dx.REFERENCE, spec, Pointer("/queue"), message, remedy=remedy)
    elif queue is not None and place.queues and queue not in place.queues:
        message = f'the queue "{queue}" does not exist in {place.name}'
        yield _at(
            dx.REFERENCE, spec, Pointer("/queue"), message, remedy=_known(place.queues, "queues")
        )
    volume = data.get("checkpoint", {}).get("volume")
    if volume is not None and volume not in data.get("volumes", {}):
        message = f'checkpoints go to the volume "{volume}", which the job does not mount'
        remedy = f"Add {Pointer.of('volumes', volume).dotted}, or name one that is there."
        yield _at(dx.REFERENCE, spec, Pointer("/checkpoint/volume"), message, remedy=remedy)

    for variable, secret in sorted(data.get("secrets", {}).items()):
        name = secret.get("name")
        if name is not None and place.secrets and name not in place.secrets:
            message = f'the Secret "{name}" does not exist in {place.name}'
            remedy = _known(place.secrets, "secrets")
            yield _at(
                dx.REFERENCE, spec, Pointer.of("secrets", variable, "name"), message, remedy=remedy
            )


def _queueing(spec: Layered, place: Environment) -> Iterator[Finding]:
    data: Any = spec.data
    queued = data.get("queue") is not None and place.queueing == "kueue"
    for path, what in (("queuePriority", "a priority in the queue"), ("topology", "a topology")):
        if path in data and not queued:
            message = f"{what} is asked for, but the job waits in no Kueue queue"
            remedy = f"Set queue, or remove {path}."
            yield _at(dx.CONTRADICTION, spec, Pointer.of(path), message, remedy=remedy)
    # Kueue admits all pods of a job or none, so what it queues is a gang already.
    if data.get("gang") and place.queueing not in ("volcano", "coscheduling") and not queued:
        message = f"a gang is asked for, but nothing in {place.name} starts pods together"
        remedy = "Set queueing in environment.yaml and, for Kueue, a queue; or remove gang."
        yield _at(dx.REFERENCE, spec, Pointer("/gang"), message, remedy=remedy)


def _elastic_range(spec: Layered) -> Iterator[Finding]:
    data: Any = spec.data
    elastic = data.get("elastic")
    if not elastic:
        return
    low, high, nodes = elastic["minNodes"], elastic["maxNodes"], _nodes(data)
    if low > high:
        message = f"elastic.minNodes ({low}) is more than elastic.maxNodes ({high})"
        yield _at(dx.CONTRADICTION, spec, Pointer("/elastic/minNodes"), message)
    elif not low <= nodes <= high:
        message = f"nodes ({nodes}) is outside the elastic range {low} to {high}"
        remedy = f"Set nodes between {low} and {high}, or leave it out to start with {high}."
        yield _at(dx.CONTRADICTION, spec, Pointer("/nodes"), message, remedy=remedy)


def _accelerators(spec: Layered, place: Environment) -> Iterator[Finding]:
    data: Any = spec.data
    gpus = data.get("resources", {}).get("gpu", 0)
    pool = place.pools.get(data.get("pool", ""))
    if data.get("backend") == "nccl" and not gpus:
        message = "backend is nccl, but resources.gpu is 0: NCCL needs GPUs"
        remedy = "Ask for GPUs in resources.gpu, or leave backend to auto."
        yield _at(dx.CONTRADICTION, spec, Pointer("/backend"), message, remedy=remedy)
    if gpus and "pool" not in data:
        message = f"resources.gpu is {gpus}, but there is no pool to take GPUs from"
        accelerated = tuple(name for name, p in place.pools.items() if p.resource)
        yield _at(
            dx.REFERENCE,
            spec,
            Pointer("/resources/gpu"),
            message,
            remedy=f"Set pool. {_known(accelerated, 'GPU pools')}",
        )
    if pool and pool.resource in data.get("resources", {}).get("extended", {}):
        message = f'{pool.resource} is what the pool "{pool.name}" counts in resources.gpu'
        path = Pointer.of("resources", "extended", pool.resource)
        yield _at(dx.CONTRADICTION, spec, path, message, remedy="Set resources.gpu instead.")
    if gpus and pool:
        yield from _pool_fit(spec, pool, gpus)


def _pool_fit(spec: Layered, pool: Pool, gpus: int) -> Iterator[Finding]:
    if not pool.resource:
        message = f'resources.gpu is {gpus}, but the pool "{pool.name}" has no accelerators'
        pools = Related("from", f'sets pool: "{pool.name}"', spec.origin("/pool"))
        yield _at(dx.CAPACITY, spec, Pointer("/resources/gpu"), message, related=(pools,))
        return
    if pool.gpus_per_node is not None and gpus > pool.gpus_per_node:
        short = gpus - pool.gpus_per_node
        message = (
            f'needs {gpus} GPUs a node, the pool "{pool.name}" has {pool.gpus_per_node}: '
            f"short by {short}"
        )
        yield _at(dx.CAPACITY, spec, Pointer("/resources/gpu"), message)
    data: Any = spec.data
    nodes = max(_nodes(data), data.get("elastic", {}).get("minNodes", 0))
    if pool.capacity is not None and nodes * gpus > pool.capacity:
        message = (
            f'needs {nodes * gpus} GPUs ({nodes} nodes of {gpus}), the pool "{pool.name}" has '
            f"{pool.capacity}: short by {nodes * gpus - pool.capacity}"
        )
        path = Pointer("/nodes" if "nodes" in data else "/resources/gpu")
        yield _at(dx.CAPACITY, spec, path, message)


def _mounts(spec: Layered) -> Iterator[Finding]:
    data: Any = spec.data
    seen: dict[str, str] = {"/dev/shm": "shm"} if data.get("shm") != "none" else {}  # noqa: S108
    if "inline" in data["entrypoint"]:
        seen[SCRIPT_FOLDER] = "entrypoint.inline"
    for name, volume in sorted(data.get("volumes", {}).items()):
        at = Pointer.of("volumes", name)
        named = at.dotted
        path = volume["mountPath"].rstrip("/") or "/"
        if path in seen:
            message = f"{named} and {seen[path]} are both mounted at {path}"
            yield _at(dx.CONTRADICTION, spec, at / "mountPath", message)
        seen[path] = named
        yield from _claim_fits(spec, name)
    both = sorted(set(data.get("env", {})) & set(data.get("secrets", {})))
    for name in both:
        message = f"{name} is set in env and in secrets"
        yield _at(dx.CONTRADICTION, spec, Pointer.of("env", name), message)


def _grace(spec: Layered) -> Iterator[Finding]:
    grace = str(spec.data["gracePeriod"])
    if seconds(grace) > MAX_GRACE:
        message = f"gracePeriod is {grace}, the most is {MAX_GRACE // 86_400}d"
        remedy = "Write the time that a checkpoint takes."
        yield _at(dx.SCHEMA, spec, Pointer("/gracePeriod"), message, remedy=remedy)


def _affinity(spec: Layered, place: Environment) -> Iterator[Finding]:
    """What Kubernetes does not know in an affinity, at the line that says it."""
    written = {"affinity": spec.data.get("affinity", {})}
    for violation in schema.affinity(place.kubernetes_version).explain(written):
        at = violation.pointer
        place_of = spec.key_origin(at) if violation.key else spec.origin(at)
        yield dx.SCHEMA.at(place_of, violation.message, remedy=violation.remedy, path=at)


def _claim_fits(spec: Layered, volume: str) -> Iterator[Finding]:
    data: Any = spec.data
    modes = data["volumes"][volume].get("create", {}).get("accessModes", ())
    many = max(_nodes(data), data.get("elastic", {}).get("maxNodes", 1)) > 1
    if modes and many and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
        message = f"the claim can be mounted by one node only ({', '.join(modes)})"
        path = Pointer.of("volumes", volume, "create", "accessModes")
        remedy = "Add ReadWriteMany, with a storageClass that has it, or set nodes to 1."
        yield _at(dx.CONTRADICTION, spec, path, message, remedy=remedy)
