"""Kubeflow Trainer v2 TrainJob, in the shape that the cluster's minor version accepts.

A run brings its own TrainingRuntime, so that every field of its pods is in git; or it refers to a
ClusterTrainingRuntime of the environment, and overrides what that minor version lets a job
override. Facts: kubeflow/trainer v2.3.0, pkg/apis/trainer/v1alpha1 and pkg/runtime/framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.groupkind import TRAININGRUNTIME, GroupKind
from trainwright.datatypes.job import DIRECTIVE, Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import facts, indexed, labels, queueing
from trainwright.kinds.target import Deviation, Fact, Serving, Target, Unsupported, given
from trainwright.kinds.trainjob import KIND
from trainwright.objects.pods import command
from trainwright.rule_model.upstream import upstream

_DEFAULT_GRACE = 30  # seconds, where nothing sets terminationGracePeriodSeconds


_GRACE = upstream("trainer/grace-period-in-patches")
_VOLCANO = upstream("trainer/volcano-gangs")
_DEADLINE = upstream("trainer/deadline-of-a-job")
_DEPENDENCIES = upstream("trainer/several-dependencies")


def _minor(job: Job, environment: Environment) -> int:
    """Return the y of Kubeflow Trainer 2.y."""
    return int(environment.targets[job.target].version.split(".")[1])


def _trainer_version(job: Job, environment: Environment) -> str:
    """Return the minor version of Kubeflow Trainer: all its releases have the same API."""
    return f"2.{_minor(job, environment)}"


def _shaped_alike(job: Job, one: Environment, other: Environment) -> bool:
    """Whether a TrainJob has the same shape under both minor versions: with a runtime of its own
    only the place of its deadline depends on them.
    """
    if _lent(job, one) or _lent(job, other):
        return False
    places = [_DEADLINE.holds(_trainer_version(job, environment)) for environment in (one, other)]
    return job.max_duration is None or places[0] == places[1]


def _runtime(job: Job, environment: Environment) -> str:
    return environment.targets[job.target].runtime


def _companions(environment: Environment) -> tuple[GroupKind, ...]:
    return () if environment.targets[KIND.name].runtime else (TRAININGRUNTIME,)


def _lent(job: Job, environment: Environment) -> bool:
    """Whether the pods come from a runtime of the environment, and not of the run's own."""
    return bool(_runtime(job, environment))


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    options = environment.targets[job.target]
    variables: dict[str, Data] = {}
    if job.launcher in ("python", *indexed.NUMBERED) or not job.entrypoint.launched:
        variables = indexed.variables(job, indexed.first_pod(name))
        # Trainer gives the container all of torchrun's variables itself, and refuses them here.
        for part in ("env", "fieldEnv"):
            own = variables.get(part, {})
            variables[part] = {k: v for k, v in own.items() if not k.startswith("PET_")}
    gang = queueing.pod_group(job, environment, name)
    return {
        "nodes": job.nodes,
        "nprocPerNode": str(job.procs_per_node),
        **variables,
        "restartPolicy": command.restart_policy(job),
        "runPolicy": indexed.run_policy(job, environment, job.retries),
        "trainer": {
            "version": _trainer_version(job, environment),
            **({"runtime": options.runtime} if options.runtime else {}),
        },
        **({"podGroup": gang["podGroup"]} if gang else {}),
    }


def _unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    yield from indexed.unsupported(job, environment)
    yield from _not_patchable(job, environment)
    yield from indexed.unserved(job, environment, _DEPENDENCIES)
    minor = _minor(job, environment)
    if _lent(job, environment):
        yield from _not_overridable(job, environment, minor)
    elif queueing.gang_scheduler(job, environment) == "volcano" and not _VOLCANO.holds(
        _trainer_version(job, environment)
    ):
        yield Unsupported(
            Pointer("/gang" if job.gang else "/queue"),
            f"Kubeflow Trainer 2.{minor} makes no Volcano gangs",
            f"Use Kubeflow Trainer {_VOLCANO.since} or newer, or remove it.",
        )


def _not_overridable(job: Job, environment: Environment, minor: int) -> Iterator[Unsupported]:
    """Yield each field that a job cannot set on the pods of a runtime that is not its own."""
    fields: dict[Pointer, object] = {
        Pointer("/entrypoint/image"): job.entrypoint.image,
        Pointer("/retries"): job.retries,
        Pointer("/roles"): job.roles,
        Pointer("/gang" if job.gang else "/queue"): queueing.gang_scheduler(job, environment),
        **given(job),
        Pointer("/image/pullPolicy"): job.image.pull_policy != "IfNotPresent",
        Pointer("/metrics"): job.metrics,
        Pointer("/resourceClaims"): job.resource_claims,
        Pointer("/serviceAccountToken"): job.service_account_token,
        Pointer("/envFrom"): job.env_from,
        **{Pointer.of("volumes", v.name, "devicePath"): v.device_path for v in job.volumes},
        Pointer("/initContainers"): job.init_containers,
        Pointer("/sidecars"): job.sidecars,
        Pointer("/gracePeriod"): job.grace_period != _DEFAULT_GRACE
        and not _GRACE.holds(_trainer_version(job, environment)),
    }
    if minor < 2:
        restricted = environment.pod_security == "restricted"
        fields |= {
            Pointer("/maxDuration"): job.max_duration,
            Pointer("/security"): restricted or _secured(job),
        }
    if minor < 1:
        fields |= {
            Pointer("/affinity"): job.affinity,
            Pointer("/podPatch"): job.pod_patch,
            Pointer("/image/pullSecrets"): job.image.pull_secrets,
            Pointer("/labels"): job.labels,
            Pointer("/podLabels"): job.pod_labels,
            Pointer("/podAnnotations"): job.pod_annotations,
            Pointer("/network"): job.network,
            Pointer("/topology"): job.topology,
            Pointer("/target"): environment.service_mesh
            != "none",  # whose sidecars a label keeps away
        }
    for path in (path for path, wanted in fields.items() if wanted):
        yield Unsupported(
            path,
            f"a job cannot set {path.dotted} in a runtime of the cluster with Kubeflow Trainer "
            f"2.{minor}",
            f"Set gracePeriod: {_DEFAULT_GRACE}s, which is what the pods have."
            if path == "/gracePeriod"
            else "Remove it, or leave out targets.trainjob.runtime: a run then brings its own.",
        )


# Fields of the runtime's container that a TrainJob always overrides.
_SAID_BY_TRAINER = ("image", "command", "args", "env", "resources")


def _not_patchable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Yield what the TrainJob overrides in a patch, or cannot do in a runtime of the cluster."""
    for at, item in _container_patches(job):
        for key in (key for key in _SAID_BY_TRAINER if key in item):
            yield Unsupported(
                at / key,
                f"the TrainJob sets {key} of the container over what its runtime has",
                f"Write {_FIELDS.get(key, key)} instead.",
            )
    if _lent(job, environment):
        for pointer, what in _removals(job.pod_patch, Pointer("/podPatch")):
            yield Unsupported(
                pointer,
                f"a TrainJob cannot {what} what a runtime of the cluster has",
                "Remove it, or leave out targets.trainjob.runtime: a run then brings its own.",
            )


_FIELDS = {"command": "entrypoint", "args": "flags"}


def _container_patches(job: Job) -> Iterator[tuple[Pointer, Mapping[str, Data]]]:
    containers = job.pod_patch.get("spec", {}).get("containers") or ()
    for index, item in enumerate(containers):
        if item.get("name") == indexed.ROLE:
            yield Pointer.of("podPatch", "spec", "containers", index), item


def _removals(patch: Data, at: Pointer) -> Iterator[tuple[Pointer, str]]:
    """Yield where a patch removes or replaces something, and which of the two."""
    for key, value in patch.items() if isinstance(patch, dict) else ():
        if value is None or key == DIRECTIVE:
            yield at / key, "remove" if value is None else str(value)
        yield from _removals(value, at / key)
    for index, item in enumerate(patch) if isinstance(patch, list) else ():
        yield from _removals(item, at / index)


def _secured(job: Job) -> bool:
    return job.security != type(job.security)()


TARGET = Target(
    of=KIND,
    summary="Kubeflow Trainer v2, 2.0 to 2.3: jobs of a fixed size, with their runtime.",
    template="trainjob.yaml",
    container=indexed.ROLE,
    values=_values,
    longest_suffix=indexed.longest_suffix,
    unsupported=_unsupported,
    facts=(
        *facts.TOLERATED_PODS,
        facts.QUEUEING,
        Fact(("targets", "trainjob", "version"), _trainer_version, _shaped_alike),
        Fact(("targets", "trainjob", "runtime"), _runtime),
    ),
    companions=_companions,
    succeeds=("PyTorchJob", "JobSet"),
    meeting=lambda job, _environment, name: indexed.meeting(job, indexed.first_pod(name)),
    numbered=indexed.NUMBERED_PODS,
    controller_labels=labels.OF_SETS,
    serving=Serving(
        indexed.serving,
        indexed.hosts,
        lambda _role, index: (f"/spec/template/spec/replicatedJobs/{index}",),
    ),
    deviations=(
        queueing.TOLERATED,
        replace(indexed.RETRIES, when=lambda job, env: job.retries > 0 and not _lent(job, env)),
        Deviation(
            about="Longest duration",
            text=f"{indexed.DEADLINE[:-1]}, with Kubeflow Trainer 2.0 and 2.1.",
            fields=("/deadline_of",),
            when=lambda job, env: (
                job.max_duration is not None and not _DEADLINE.holds(_trainer_version(job, env))
            ),
        ),
        Deviation(
            about="A runtime of the cluster",
            text="Restarts are those of the runtime, and so are the pull policy and whether a "
            "ServiceAccount's token is mounted.",
            fields=("/pods/*/restart/**", "/pods/*/pull_policy", "/pods/*/token"),
            when=_lent,
        ),
        Deviation(
            about="A runtime of the cluster before Kubeflow Trainer 2.2",
            text="The security contexts are those of the runtime.",
            fields=("/pods/*/security/**",),
            when=lambda job, env: _lent(job, env) and _minor(job, env) < 2,
        ),
        Deviation(
            about="A runtime of the cluster with Kubeflow Trainer 2.0",
            text="The pods have the runtime's labels and not the job's.",
            fields=("/pods/*/labels/**",),
            when=lambda job, env: _lent(job, env) and _minor(job, env) < 1,
        ),
        Deviation(
            about="Plain `helm install`",
            text="Helm applies kinds it does not know in alphabetical order, and Trainer refuses a "
            "TrainJob before its TrainingRuntime: set the chart's `trainer.installHook: true`, by "
            "which Helm makes the runtime first and `helm uninstall` leaves it, or refer to a "
            "runtime of the cluster. It is off by default, since Argo CD takes such a hook for one "
            "of its own and deletes the runtime at each sync.",
        ),
    ),
)
