"""What targets built on Indexed Jobs share: their pods are told apart by a completion index.

No operator tells these pods where rank 0 is, so the manifest does. The index is an annotation of
every pod: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import queueing
from trainwright.kinds.target import Deviation, Meeting, Unsupported, one_process
from trainwright.objects.pods import command as launch
from trainwright.objects.pods.references import Variable
from trainwright.rule_model.upstream import Behaviour

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}  # as Kubeflow's PyTorchJob has it, for prompt logs
PORT = 29500  # torchrun's default, and Kubeflow Trainer's
# Launchers that have to be told which node they are on, whatever an operator sets.
NUMBERED = ("accelerate", "deepspeed")
ROLE = "node"  # in the names of pods, if they are one group
INDEX = "JOB_COMPLETION_INDEX"  # set by Kubernetes, where the container has none of that name
INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


# Between the name of a JobSet and the number of a pod: its Job, and which of these.
NUMBERED_PODS = f"-{ROLE}-0-"


def first_pod(name: str) -> str:
    """Return rank 0's address in a JobSet: <jobset>-<job>-<job index>-<pod index>.<service>."""
    return f"{name}{NUMBERED_PODS}0.{name}"


def hosts(role: Job, name: str) -> tuple[str, ...]:
    """Return the host names of a role's pods in the Service of a JobSet of that name."""
    assert role.role is not None
    return tuple(f"{name}-{role.role.name}-0-{index}.{name}" for index in range(role.nodes))


def serving(role: Job, environment: Environment) -> dict[str, Data]:
    """Return the values of a role, whose Job starts single containers again.

    JobSet starts what depends on it once all its pods are ready.
    """
    return {
        "nodes": role.nodes,
        "restartPolicy": "OnFailure",
        "runPolicy": {"backoffLimit": role.retries},
        "env": dict(_ALONE) if launch.starts_runtime(role) else {},
    }


# To our entrypoint the index of a pod is its rank, and each pod of a role is one node by itself.
_ALONE = {INDEX: "0", "TRAINWRIGHT_NNODES": "1"}


def longest_suffix(job: Job) -> str:
    """Return the longest suffix of a JobSet's pods; its webhook counts the random part too."""
    names = ((group.role.name if group.role else ROLE, group.nodes) for group in job.groups)
    return max((f"-{name}-0-{nodes - 1}-abcde" for name, nodes in names), key=len)


def unserved(job: Job, environment: Environment, dependencies: Behaviour) -> Iterator[Unsupported]:
    """Yield a problem if training cannot wait for all roles: because the operator's version lets a
    group of pods depend on only one other, or because of a gang scheduler.

    In a gang some pods are made once the others are ready, and it waits for all.
    """
    version = environment.targets[job.target].version
    if len(job.roles) > 1 and version and not dependencies.holds(version):
        yield Unsupported(
            Pointer("/roles"),
            f"what trains waits for {len(job.roles)} roles, and with {dependencies.project} "
            f"{version} a group of pods depends on one other",
            f"Use {dependencies.project} {dependencies.since} or newer, or a single role.",
        )
    if job.roles and queueing.gang_scheduler(job, environment):
        field = "gang" if job.gang else "queue"
        yield Unsupported(
            Pointer.of(field),
            "a gang scheduler starts all pods at once, and those that train are made when the "
            "roles serve: each would wait for the other",
            f"Remove it ({field}: null), or use a queue of Kueue.",
        )


def meeting(job: Job, address: str) -> Meeting:
    """Return how the pods meet if the first one has this address."""
    alone = job.role is not None and launch.starts_runtime(job)  # see _ALONE
    own = "ROLE_INDEX" if alone else INDEX
    return Meeting(address, str(PORT), Variable(own, INDEX_FIELD))


def variables(job: Job, address: str) -> dict[str, Data]:
    """Return the `env` and `fieldEnv` by which a container's processes find each other.

    Our entrypoint and torchrun number the processes themselves. A user's own command gets the
    variables that Kubeflow's PyTorchJob would have set.
    """
    if launch.starts_runtime(job):
        return {
            "env": {
                "TRAINWRIGHT_MASTER_ADDR": address,
                "TRAINWRIGHT_MASTER_PORT": str(PORT),
                "TRAINWRIGHT_NNODES": str(job.nodes),
            }
        }
    if job.launcher in ("torchrun", *NUMBERED) and job.entrypoint.launched:
        # In the command $(NAME) stands for variables that the manifest declares, and no others.
        return {"fieldEnv": {INDEX: INDEX_FIELD}}
    return {
        "env": {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(PORT),
            "WORLD_SIZE": str(job.nodes * job.procs_per_node),
            **({} if job.entrypoint.launched else _for_any_command(job, address)),
        },
        "fieldEnv": {
            "RANK": INDEX_FIELD,
            **({} if job.entrypoint.launched else {"PET_NODE_RANK": INDEX_FIELD}),
        },
    }


def single_pod_env(job: Job) -> dict[str, str]:
    """Return the variables of `variables` as plain values, for a run of a single pod."""
    entries = variables(job, "127.0.0.1")
    return {**entries["env"], **dict.fromkeys(entries["fieldEnv"], "0")}


def _for_any_command(job: Job, address: str) -> dict[str, str]:
    """Return torchrun's options as variables, for a command that may be torchrun."""
    return {
        **UNBUFFERED,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(PORT),
        "PET_NNODES": str(job.nodes),
        "PET_NPROC_PER_NODE": str(job.procs_per_node),
    }


def command(job: Job, address: str) -> list[str]:
    """Return the command, with a static rendezvous for torchrun.

    With c10d a node finds out by comparing names whether it hosts the store, and a pod's short
    name and its address in the service differ: https://github.com/pytorch/pytorch/issues/73380
    """
    return launch.command_line(
        job,
        place=launch.MeetingPlace(address, str(PORT), f"$({INDEX})"),
        rendezvous=(
            f"--nnodes={job.nodes}",
            f"--node-rank=$({INDEX})",
            f"--master-addr={address}",
            f"--master-port={PORT}",
        ),
    )


def run_policy(job: Job, environment: Environment, backoff_limit: int) -> dict[str, Data]:
    """Return the chart's run policy.

    A TTL would delete the object, and GitOps would train again.
    """
    policy: dict[str, Data] = {"backoffLimit": backoff_limit}
    if job.max_duration is not None:
        policy["activeDeadlineSeconds"] = job.max_duration
    return policy | queueing.suspend(job, environment)


RETRIES = Deviation(
    about="Retries",
    text="All pods are restarted when one is lost.",
    fields=("/pods/*/restart/together",),
    when=lambda job, _: job.retries > 0,
)
DEADLINE = "It is that of each attempt, not of the run."


def unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Yield what no target based on Indexed Jobs can express."""
    yield from queueing.unsuspendable(job, environment)
    yield from one_process(job)
