"""Every decision about a job, as the values of the chart. The chart only lays them out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from posixpath import join

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import GIVEN, File, Job, ValueFrom
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.same import digest
from trainwright.datatypes.volumes import Volume
from trainwright.documents.yamlio import Block
from trainwright.helm.values import containers, references, roles, variables
from trainwright.helm.values.canonical import canonical
from trainwright.kinds import TARGETS, indexed, queueing
from trainwright.kinds.capabilities import left_to_flavor
from trainwright.kinds.target import Target, Unsupported
from trainwright.objects import own_labels
from trainwright.objects.kueue import PRIORITY_LABEL, QUEUE_LABEL
from trainwright.objects.kustomize import LOCAL_CONFIG, leaves_out
from trainwright.objects.pods import code, command, launchers, shm
from trainwright.objects.pods.flags import flag_arguments
from trainwright.objects.pods.launching import is_loopback
from trainwright.objects.pods.template import CHECKPOINT_DIR, ROLE_LABEL
from trainwright.objects.sync_options import OPTIONS
from trainwright.specs.merge import merge

_DNS_OF_HOST = "ClusterFirstWithHostNet"


def build(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    """Return chart values for one run named `name`.

    Empty values are left to the chart's defaults.
    """
    job = canonical(job)
    decided = _of_group(job, environment, name)
    if not job.roles or TARGETS[job.target].serving is None:
        return decided
    return roles.with_roles(decided, job, lambda role: _of_group(role, environment, name))


def _of_group(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    """Return the values for the training pods, or for the pods of a role."""
    resolved = references.resolved(job, environment, name)
    job = code.mounted(resolved.job, environment)
    job = TARGETS[job.target].prepared(job, environment)
    common = {
        "target": job.target,
        "fullnameOverride": name,
        "commonLabels": {**job.labels, **_own_labels(job, name)},
        "labels": _object_labels(job, environment),
        "annotations": _annotations(job, environment),
        **_pod_metadata(job, environment),
        "image": _image(job),
        "imagePullSecrets": [{"name": secret} for secret in job.image.pull_secrets],
        "command": _command(job, environment, name),
        "args": [*job.entrypoint.args, *flag_arguments(job.flags, job.flag_style)],
        "env": dict(sorted({**_variables(job, name), **variables.literals(job.env)}.items())),
        **variables.sourced(job.env),
        "envFrom": [source.reference for source in job.env_from],
        "secretEnv": {
            key: secret.reference(name, key) for key, secret in sorted(job.secrets.items())
        },
        "resources": _resources(job),
        "resourceClaims": _device_claims(job),
        "shm": {"sizeLimit": shm.size(job)},
        "volumes": [_volume(job, volume) for volume in job.volumes],
        "files": _files(job),
        "initContainers": containers.init_containers(job),
        **_placement(job, environment),
        "affinity": dict(job.affinity),
        "podSecurityContext": _pod_security(job, environment),
        "securityContext": containers.rights(job.security),
        "serviceAccountName": job.service_account or (name if job.create_service_account else ""),
        **_given(job, name),
        "schedulerName": queueing.gang_scheduler(job, environment) or job.scheduler_name,
        "automountServiceAccountToken": job.service_account_token or "",
        "terminationGracePeriodSeconds": job.grace_period,
        "podPatches": [dict(job.pod_patch)] if job.pod_patch else [],
    }
    decided = merge(common, _of_target(job, environment, name))
    # Over defaults; see `reserved` for the rest.
    decided = merge(decided, {"env": variables.literals(job.env)})
    decided |= {
        "fieldEnv": {**decided.get("fieldEnv", {}), **resolved.variables},
        "ports": [*decided.get("ports", []), *_metrics_ports(job)],
        **_supporting(job),
    }
    decided["firstEnv"] = variables.first(decided)
    return {key: value for key, value in decided.items() if value not in ("", [], {})}


def _command(job: Job, environment: Environment, name: str) -> list[str]:
    if job.role:  # each pod serves by itself
        return command.command_line(replace(job, nodes=1))
    return command.command_line(job, place=references.meeting_place(job, environment, name))


def _of_target(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    """Return the values in which the target differs from others."""
    target = TARGETS[job.target]
    if job.role is None:
        return target.values(job, environment, name)
    assert target.serving is not None
    serving_values: dict[str, Data] = merge(
        roles.probed(job.role), target.serving.values(job, environment)
    )
    return serving_values


def _given(job: Job, name: str) -> dict[str, Data]:
    """Return the fields that are copied into pods and containers as they are written."""
    written = {key: getattr(job, name) for name, key in GIVEN.items()}
    if job.host_network and not job.dns_policy and not TARGETS[job.target].envelope:
        # Any other policy asks the node's name servers, which do not know the run's ranks.
        # https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
        written["dnsPolicy"] = _DNS_OF_HOST
    selected = {own_labels.RUN: name, **({ROLE_LABEL: job.role.name} if job.role else {})}
    written["topologySpreadConstraints"] = [
        {"labelSelector": {"matchLabels": selected}, **constraint}
        for constraint in job.topology_spread  # without a selector it would count no pods
    ]
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in written.items()
        if value is not None
    }


def reserved(
    resolved: references.Resolved, environment: Environment, name: str
) -> Iterator[Unsupported]:
    """Yield variables and labels of the job that its kind, or what is rendered for it, also sets.

    Of two with the same name only one reaches the pods, so the other would be lost.
    """
    job = resolved.job
    target = TARGETS[job.target]
    decided = _of_target(job, environment, name)
    set_by_us = (decided.get("env", {}), decided.get("fieldEnv", {}), resolved.variables)
    set_variables = {
        **_variables(job, name),
        **{k: v for each in set_by_us for k, v in each.items()},
    }
    yield from _reserved_variables(job, set_variables)
    of_pods = merge(_metadata_for_others(job, environment), decided)
    labels = {
        **_own_labels(job, name),
        **_object_labels(job, environment),
        **of_pods.get("podLabels", {}),
    }
    yield from _reserved_labels(job, environment, labels)
    if leaves_out(job.annotations):
        message = (
            f"kustomize leaves out what has the annotation {LOCAL_CONFIG}: the run would not begin"
        )
        at = Pointer.of("annotations", LOCAL_CONFIG)
        yield Unsupported(at, message, f"Remove it ({at.dotted}: null).")
    annotations = of_pods.get("podAnnotations", {})
    for annotation, value in job.pod_annotations.items():
        if value != annotations.get(annotation, value):
            yield _reserved(target, Pointer.of("podAnnotations", annotation))


def _reserved_variables(job: Job, rendered: Mapping[str, Data]) -> Iterator[Unsupported]:
    """Yield variables of the job that have another value in `rendered`, or that its launcher or a
    controller sets.
    """
    target = TARGETS[job.target]
    for field, written in (("env", job.env), ("secrets", job.secrets)):
        for variable, value in written.items():
            at = Pointer.of(field, variable)
            if value != rendered.get(variable, value) and variable not in indexed.UNBUFFERED:
                yield _reserved(target, at)
            elif variable in launchers.set_variables(job):
                message = (
                    f"the variable {variable} is decided by the launcher, {job.launcher}, for each "
                    "node and process: this one would be lost, or end the run"
                )
                yield Unsupported(at, message, _remove(at))
            elif (
                variable == indexed.INDEX
                and variable in target.of.variables
                and not isinstance(value, ValueFrom)  # from the annotation it is the same
                and (value != "0" or job.nodes > 1)  # the index of a pod that is alone
            ):
                message = f"the variable {variable} is set in every pod of a {target.kind}"
                yield Unsupported(
                    at, f"{message}, and with this one all would have the same", _remove(at)
                )
            elif (
                variable == "MASTER_ADDR"
                and job.nodes > 1
                and isinstance(value, str)
                and is_loopback(value)
            ):
                message = (
                    f"MASTER_ADDR is {value}, where each of the {job.nodes} nodes finds itself"
                )
                remedy = f"Remove it ({at.dotted}: null), or write an address that all nodes reach."
                yield Unsupported(at, message, remedy)


def _reserved_labels(
    job: Job, environment: Environment, labels: Mapping[str, Data]
) -> Iterator[Unsupported]:
    """Yield labels of the job that have another value in `labels`, or belong to a controller."""
    target = TARGETS[job.target]
    for field, written in (("labels", job.labels), ("podLabels", job.pod_labels)):
        for label, value in written.items():
            if label in _OF_FIELDS and environment.queueing == "kueue":
                yield _of_field(Pointer.of(field, label), value)
            elif value != labels.get(label, value) or label in target.controller_labels:
                yield _reserved(target, Pointer.of(field, label))


_KINDS_OF_NAMES = {"labels": "label", "podLabels": "label", "podAnnotations": "annotation"}


# Labels of Kueue, and the fields of a job which set them and what belongs to them.
_OF_FIELDS = {QUEUE_LABEL: "queue", PRIORITY_LABEL: "queuePriority"}


def _of_field(at: Pointer, value: str) -> Unsupported:
    label = at.parts[-1]
    message = f"the label {label} is what {_OF_FIELDS[label]} sets, on the object and not on pods"
    return Unsupported(at, message, f"Write `{_OF_FIELDS[label]}: {value}` instead.")


def _reserved(target: Target, at: Pointer) -> Unsupported:
    field, key = at.parts
    what = _KINDS_OF_NAMES.get(field, "variable")
    message = f"the {what} {key} is set for every {target.kind}, and this one would be lost"
    return Unsupported(at, message, _remove(at))


def _remove(at: Pointer) -> str:
    return f"Remove it ({at.dotted}: null), or use another name."


def _own_labels(job: Job, name: str) -> dict[str, str]:
    return {
        own_labels.JOB: job.name,
        own_labels.RUN: name,
        own_labels.MANAGED_BY: own_labels.OURS,
        own_labels.ENVIRONMENT: job.environment,
        own_labels.NUMBER: str(job.run),
    }


def _object_labels(job: Job, environment: Environment) -> dict[str, str]:
    labels = {}
    if queueing.in_kueue(job, environment):
        labels[QUEUE_LABEL] = job.queue
        if job.queue_priority:
            labels[PRIORITY_LABEL] = job.queue_priority
    return labels


def _annotations(job: Job, environment: Environment) -> dict[str, str]:
    """Return the job's own annotations, and those that keep its GitOps engine from harming the run.

    A manifest that leaves git may belong to a run that still trains, so no engine may delete it.
    Our wiring ensures that; these annotations do so under any other wiring.
    https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/
    """
    own, gitops = dict(job.annotations), environment.gitops
    if TARGETS[job.target].envelope:
        return own
    confirm = gitops.prune == "confirm"
    if gitops.engine == "flux" and confirm:
        return {"kustomize.toolkit.fluxcd.io/prune": "disabled", **own}
    options = {"Prune": "false", "Delete": "false"} if confirm else {}
    if queueing.in_kueue(job, environment):
        options["ServerSideApply"] = "true"  # Kueue adds items to lists, which any other drops
    if gitops.engine != "argocd" or not options:
        return own
    written = (option.strip().partition("=") for option in own.get(OPTIONS, "").split(","))
    options |= {name: value for name, _, value in written if name}
    joined = ",".join(f"{name}={value}" for name, value in options.items())
    return {OPTIONS: "", **own} | {OPTIONS: joined}


def _pod_metadata(job: Job, environment: Environment) -> dict[str, Data]:
    own = {"podLabels": dict(job.pod_labels), "podAnnotations": dict(job.pod_annotations)}
    merged: dict[str, Data] = merge(own, _metadata_for_others(job, environment))
    return merged


def _metadata_for_others(job: Job, environment: Environment) -> dict[str, Data]:
    """Return the pod labels and annotations that Kueue and service meshes read.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    topology = job.topology
    if topology is None:
        return _mesh(job, environment)
    kind, level = (
        ("required", topology.required) if topology.required else ("preferred", topology.preferred)
    )
    wanted = {f"kueue.x-k8s.io/podset-{kind}-topology": level}
    merged: dict[str, Data] = merge(_mesh(job, environment), {"podAnnotations": wanted})
    return merged


def _mesh(job: Job, environment: Environment) -> dict[str, Data]:
    """Return what keeps mesh sidecars out: they break NCCL and keep finished pods alive.

    Current Istio reads the label, older ones the annotation (kubeflow/manifests#2798).
    """
    if TARGETS[job.target].envelope:
        return {}
    if environment.service_mesh == "istio":
        off = {"sidecar.istio.io/inject": "false"}
        return {"podLabels": off, "podAnnotations": off}
    if environment.service_mesh == "linkerd":
        return {"podAnnotations": {"linkerd.io/inject": "disabled"}}
    return {}


def _image(job: Job) -> dict[str, Data]:
    image = {
        "repository": job.image.repository,
        "tag": job.image.tag,
        "digest": job.image.digest,
        "pullPolicy": job.image.pull_policy,
    }
    return {key: value for key, value in image.items() if value}


def _variables(job: Job, name: str) -> dict[str, str]:
    env = {**dict(_of_the_runtime(job, name)), **_of_trackers(job, name)}
    if job.launcher == "accelerate" and not job.resources.gpu and job.entrypoint.launched:
        env["ACCELERATE_USE_CPU"] = "true"  # or each process believes that it is alone
    return env


def _of_the_runtime(job: Job, name: str) -> Iterator[tuple[str, str]]:
    if job.metrics:
        yield "TRAINWRIGHT_METRICS_PORT", str(job.metrics.port)
    checkpoint = job.checkpoint
    if checkpoint is None:
        return
    mount = references.mount_path(job, checkpoint.volume)
    yield CHECKPOINT_DIR, references.checkpoint_folder(job, checkpoint, name)
    if checkpoint.every is not None:
        yield "TRAINWRIGHT_CHECKPOINT_EVERY", str(checkpoint.every)
    if checkpoint.keep is not None:
        yield "TRAINWRIGHT_CHECKPOINT_KEEP", str(checkpoint.keep)
    if checkpoint.resume_from:
        yield "TRAINWRIGHT_RESUME_FROM", join(mount, checkpoint.resume_from)
    if copies := checkpoint.peer_copies:
        memory = references.mount_path(job, copies.volume)
        yield "TRAINWRIGHT_PEER_COPIES_DIR", join(memory, name)
        yield "TRAINWRIGHT_PEER_COPIES_EVERY", str(copies.every)


def _of_trackers(job: Job, name: str) -> dict[str, str]:
    """Return variables that experiment trackers read themselves, without help of the script.

    https://docs.wandb.ai/guides/track/environment-variables
    https://mlflow.org/docs/latest/api_reference/python_api/mlflow.environment_variables.html
    https://huggingface.co/docs/trackio/environment_variables
    """
    tracking = job.tracking
    if tracking is None:
        return {}
    commit = tracking.commit or (job.code.git.commit if job.code and job.code.git else "")
    tags = {
        "trainwright.environment": job.environment,
        "trainwright.job": job.name,
        "trainwright.run": name,
        **({"mlflow.source.git.commit": commit} if commit else {}),
    }
    return {
        "WANDB_PROJECT": tracking.project,
        "WANDB_RUN_GROUP": name,  # a group, since each rank may log a run of its own
        "WANDB_TAGS": f"{job.environment},{job.name}",
        **({"WANDB_GIT_COMMIT": commit} if commit else {}),
        "MLFLOW_EXPERIMENT_NAME": tracking.project,
        "MLFLOW_RUN_CONTEXT": json.dumps(tags, sort_keys=True),
        "TRACKIO_PROJECT": tracking.project,
    }


def _resources(job: Job) -> dict[str, Data]:
    """Return a job's resources as chart values. Accelerators need requests equal to limits; memory
    is limited so that a leak hurts only this job, unless the spec has it among the requests alone.

    The CPU has a limit only when the spec gives one: throttling a data loader starves the GPU.
    """
    declared = job.resources
    exact = {key: str(count) for key, count in sorted(declared.extended.items())}
    exact |= {f"hugepages-{page}": amount for page, amount in sorted(declared.hugepages.items())}
    if declared.gpu and job.pool and job.pool.resource:
        exact[job.pool.resource] = str(declared.gpu)
    filled = {
        kind: {key: value for key, value in {**amounts, **exact}.items() if value}
        for kind, amounts in (("requests", declared.requests), ("limits", declared.limits))
    }
    used = [
        {"name": claim.name, **({"request": claim.request} if claim.request else {})}
        for claim in job.resource_claims
    ]
    amounts_by_kind: dict[str, Data] = {
        kind: amounts for kind, amounts in filled.items() if amounts
    }
    return amounts_by_kind | ({"claims": used} if used else {})


def _device_claims(job: Job) -> list[Data]:
    """Return the pod's claims of devices by dynamic resource allocation.

    https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
    """
    return [
        {"name": claim.name, "resourceClaimTemplateName": claim.template}
        if claim.template
        else {"name": claim.name, "resourceClaimName": claim.claim}
        for claim in job.resource_claims
    ]


def _volume(job: Job, volume: Volume) -> dict[str, Data]:
    """Return a volume, with its first mount beside its source and the others in a list."""
    made = {"persistentVolumeClaim": {"claimName": claim_name(job, volume)}}
    rendered: dict[str, Data] = {
        "name": volume.name,
        "source": made if volume.create else dict(volume.source),
    }
    if volume.mount_path:
        first, *further = map(containers.place, volume.mounted)
        rendered |= first
    else:
        further = [containers.place(mount) for mount in volume.mounts]
    if volume.device_path:
        rendered["devicePath"] = volume.device_path
    return rendered | ({"mounts": further} if further else {})


def claim_name(job: Job, volume: Volume) -> str:
    """Return the name of the claim that is created for a volume."""
    # Of the job, not of the run: a changed spec finds the data and the checkpoints of the last.
    return f"{job.name}-{volume.name}"


def _files(job: Job) -> dict[str, Data]:
    """Return the files of the run by path, the inline script among them, and their keys."""
    script = job.entrypoint.inline
    files = {file.name: file for file in job.files}
    if script:
        files[command.SCRIPT_PATH] = File.of(command.SCRIPT_PATH, script.encode())
    keys = _config_keys(files)
    return {path: {"key": keys[path], **_file(files[path])} for path in sorted(files)}


def _file(file: File) -> dict[str, Data]:
    content: dict[str, Data] = {"content": Block(file.content)}
    if file.binary:
        content = {"binary": file.binary}
    return {**content, "mode": int(file.mode, 8)} if file.mode else content


_NOT_IN_KEYS = re.compile(r"[^-._A-Za-z0-9]|^\.(?=\.)")
_LONGEST_KEY = 253


def _config_keys(paths: Collection[str]) -> dict[str, str]:
    """Return each file's ConfigMap key: its name, after a hash if it is too long or not unique.

    https://kubernetes.io/docs/concepts/configuration/configmap/#configmap-object
    """
    names = {path: _NOT_IN_KEYS.sub("_", path.rpartition("/")[2]) for path in paths}
    several = {name for name, count in Counter(names.values()).items() if count > 1}
    for path, name in names.items():
        # A script is main.py whatever else there is.
        if (name in several or len(name) > _LONGEST_KEY) and path != command.SCRIPT_PATH:
            mark = digest(path.encode())[:8]
            names[path] = f"{mark}-{name[-200:]}"
    return names


def _metrics_ports(job: Job) -> list[Data]:
    """Return one port per process, so that no sample of one hides another's."""
    if job.metrics is None:
        return []
    return [
        {"name": f"metrics-{rank}", "containerPort": job.metrics.port + rank, "protocol": "TCP"}
        for rank in range(job.procs_per_node)
    ]


def _supporting(job: Job) -> dict[str, Data]:
    """Return the values for the objects that the spec wants created next to the job."""
    external = {
        key: {
            "store": secret.external.store,
            "kind": secret.external.kind,
            "key": secret.external.key,
            "property": secret.external.property,
        }
        for key, secret in sorted(job.secrets.items())
        if secret.external
    }
    return {
        "claims": [_claim(job, volume) for volume in job.volumes if volume.create],
        "externalSecret": {k: {n: v for n, v in e.items() if v} for k, e in external.items()},
        "createServiceAccount": job.create_service_account or "",
        "podMonitor": {"enabled": True} if job.metrics else {},
        "networkPolicy": _network_policy(job),
    }


def _network_policy(job: Job) -> dict[str, Data]:
    if job.network:
        return {"enabled": True}
    # Any client that reaches the workers of live recovery could read the state they send newcomers.
    live = job.elastic is not None and job.elastic.recovery == "live"
    return {"enabled": True, "egress": True} if live and not job.host_network else {}


def _claim(job: Job, volume: Volume) -> dict[str, Data]:
    """Return a claim that is created for a volume."""
    assert volume.create is not None
    # Ranks on several nodes need a volume that several nodes can mount.
    modes = volume.create.access_modes or (
        ("ReadWriteOnce",) if _most_nodes(job) == 1 else ("ReadWriteMany",)
    )
    claim: dict[str, Data] = {
        "name": claim_name(job, volume),
        "size": volume.create.size,
        "accessModes": list(modes),
    }
    if volume.create.storage_class:
        claim["storageClassName"] = volume.create.storage_class
    return claim


def _most_nodes(job: Job) -> int:
    """Return the most nodes that train at the same time."""
    return job.elastic.max_nodes if job.elastic else job.nodes


def _placement(job: Job, environment: Environment) -> dict[str, Data]:
    selector: Mapping[str, str] = job.pool.node_selector if job.pool else {}
    tolerations = job.pool.tolerations if job.pool else ()
    placed: dict[str, Data] = {
        "nodeSelector": dict(sorted({**selector, **job.node_selector}.items())),
        "tolerations": [dict(toleration) for toleration in (*tolerations, *job.tolerations)],
    }
    left = left_to_flavor(job, environment)
    return {key: value for key, value in placed.items() if key not in left}


def _pod_security(job: Job, environment: Environment) -> dict[str, Data]:
    """Return the pod's security context: what the environment demands, and what the job sets."""
    context: dict[str, Data] = {}
    if TARGETS[job.target].envelope:
        pass  # Docker has no such check
    elif environment.pod_security == "restricted":
        context["runAsNonRoot"] = True
    elif not job.security.run_as_user:
        context["runAsNonRoot"] = False  # or the chart's own default would refuse root
    ids = {
        "runAsUser": job.security.run_as_user,
        "runAsGroup": job.security.run_as_group,
        "fsGroup": job.security.fs_group,
    }
    context |= {key: value for key, value in ids.items() if value is not None}
    if job.security.fs_group is not None:
        # Without it the kubelet walks every file of a volume at each start.
        context["fsGroupChangePolicy"] = "OnRootMismatch"
    own = job.security
    if own.run_as_non_root is not None and not TARGETS[job.target].envelope:
        context["runAsNonRoot"] = own.run_as_non_root
    more: dict[str, Data] = {
        "supplementalGroups": list(own.supplemental_groups),
        "appArmorProfile": dict(own.app_armor_profile),
        "seLinuxOptions": dict(own.se_linux_options),
        "sysctls": list(own.sysctls),
    }
    context |= {key: value for key, value in more.items() if value}
    context["seccompProfile"] = dict(own.seccomp_profile) or {"type": "RuntimeDefault"}
    return context
