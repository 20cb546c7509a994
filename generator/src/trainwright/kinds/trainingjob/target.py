"""BreezeML Lattice TrainingJob: jobs that the operator resizes between minSize and maxSize.

Facts: lattice-io/lattice, lattice-operator/pkg/apis/breezeml.ai/v1/lattice_types.go and its CRD.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import facts, indexed
from trainwright.kinds.target import (
    Deviation,
    Fact,
    Meeting,
    Target,
    Unsupported,
    argument_words,
    fixed_nodes,
    one_process,
    own_rendezvous,
)
from trainwright.kinds.trainingjob import KIND
from trainwright.objects.pods import command
from trainwright.objects.pods.references import NotKnown

# Launchers that start the processes of a node themselves, and so in place of the agent.
_LAUNCHERS = ("torchrun", *indexed.NUMBERED)


def _sizes(job: Job) -> tuple[int, int]:
    if job.elastic:
        return job.elastic.min_nodes, job.elastic.max_nodes
    return job.nodes, job.nodes


def injects(job: Job) -> bool:
    """Whether Lattice starts its agent: without it no rendezvous environment is set at all."""
    if job.lattice.inject is not None:
        return job.lattice.inject
    own_launcher = job.launcher in _LAUNCHERS and job.entrypoint.launched
    return not own_launcher and (_sizes(job)[1] > 1 or job.procs_per_node > 1)


def _rendezvous(job: Job, environment: Environment) -> dict[str, str]:
    """Return torchrun's rendezvous as environment.yaml sets it, for a job without the Lattice
    agent; else an empty mapping.
    """
    options = environment.targets[job.target]
    alone = job.launcher == "torchrun" and job.entrypoint.launched and not injects(job)
    if not (alone and options.rendezvous_endpoint):
        return {}
    return {"backend": options.rendezvous_backend, "endpoint": options.rendezvous_endpoint}


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    low, high = _sizes(job)
    inject = injects(job)
    policy: dict[str, Data] = {"cleanPodPolicy": "Running", "backoffLimit": job.retries}
    if job.max_duration is not None:
        policy["activeDeadlineSeconds"] = job.max_duration
    values: dict[str, Data] = {
        # Lattice forces Never once its agent is injected; a value would only mislead.
        "restartPolicy": "" if inject else command.restart_policy(job),
        "runPolicy": policy,
        "lattice": {
            "minSize": low,
            "maxSize": high,
            "inject": inject,
            "framework": job.lattice.framework,
            "priority": job.lattice.priority,
        },
    }
    meeting = _rendezvous(job, environment)
    if inject:
        several = {"LATTICE_NPROC_PER_NODE": str(job.procs_per_node)}
        values["env"] = {
            **(several if job.procs_per_node > 1 else {}),
            **({} if job.entrypoint.launched else indexed.UNBUFFERED),
        }
    elif job.launcher == "python" or not job.entrypoint.launched:
        values["env"] = indexed.single_pod_env(job)
    elif meeting:
        values["command"] = command.command_line(
            job,
            rendezvous=(
                f"--nnodes={low}:{high}",
                f"--rdzv-backend={meeting['backend']}",
                f"--rdzv-endpoint={meeting['endpoint']}",
                f"--rdzv-id={name}",
            ),
        )
    return values


_AGREED = NotKnown(
    "the nodes of a TrainingJob agree on where they meet when they start",
    "Read MASTER_ADDR, MASTER_PORT and RANK in the program, or use target pytorchjob.",
)


def _meeting(job: Job, environment: Environment, name: str) -> Meeting:
    if _sizes(job)[1] > 1:
        return Meeting(_AGREED, _AGREED, _AGREED)
    return Meeting("127.0.0.1", str(indexed.PORT), "0")


def _longest_suffix(job: Job) -> str:
    return f"-worker-{_sizes(job)[1] - 1}"


def _unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    yield from fixed_nodes(job)
    if _rendezvous(job, environment):
        yield from own_rendezvous(job, "environment.yaml has the rendezvous of a TrainingJob")
    if job.queue:
        yield Unsupported(
            Pointer("/queue"),
            "a TrainingJob cannot be queued: Lattice schedules by priority itself",
            "Remove the queue (queue: null) and set lattice.priority, or use target pytorchjob.",
        )
    if job.elastic and job.elastic.recovery:
        yield Unsupported(
            Pointer("/elastic/recovery"),
            "a TrainingJob cannot recover live: Lattice starts all processes again at any change",
            "Remove recovery (elastic.recovery: restart), or use target pytorchjob.",
        )
    if job.state == "suspended":
        yield Unsupported(
            Pointer("/state"),
            "a TrainingJob cannot be suspended: its API has no such field",
            "Use state: cancelled, or target pytorchjob.",
        )
    if job.gang:
        yield Unsupported(
            Pointer("/gang"),
            "a TrainingJob has no gang: Lattice starts between minSize and maxSize pods itself",
            "Remove gang (gang: null), or use target pytorchjob.",
        )
    rendezvous = environment.targets[job.target].rendezvous_endpoint
    if job.network and (injects(job) or rendezvous):
        yield Unsupported(
            Pointer("/network"),
            "the pods of a TrainingJob meet outside the job, in Lattice's own rendezvous",
            "Remove network (network: open), or use target pytorchjob.",
        )
    yield from _apart(job, rendezvous)


def _apart(job: Job, rendezvous: str) -> Iterator[Unsupported]:
    """Yield what keeps the nodes from meeting; `rendezvous` is the one of environment.yaml."""
    many = _sizes(job)[1] > 1
    if many and not injects(job) and job.launcher == "torchrun" and not rendezvous:
        yield Unsupported(
            Pointer("/launcher"),
            "torchrun needs a rendezvous endpoint, and a TrainingJob without the agent has none",
            "Set targets.trainingjob.rendezvous in environment.yaml, or lattice.inject: true.",
        )
    numbered = job.launcher in (*indexed.NUMBERED, "ray") and job.entrypoint.launched
    if numbered and (many or injects(job)):
        yield Unsupported(
            Pointer("/launcher"),
            f"{job.launcher} has to know where the nodes meet, and those of a TrainingJob agree "
            "on it when they start",
            "Use launcher trainwright or torchrun, or target pytorchjob.",
        )
    elif injects(job):
        yield from _unquotable(job)
        if job.entrypoint.image:
            yield Unsupported(
                Pointer("/entrypoint/image"),
                "Lattice's agent starts a command, and does not know what the image starts",
                "Write that command as entrypoint.argv, or use target pytorchjob.",
            )
    else:
        yield from one_process(job)
        if many and (job.launcher != "torchrun" or not job.entrypoint.launched):
            yield Unsupported(
                Pointer("/lattice/inject"),
                "without the agent the pods cannot find each other",
                "Remove lattice.inject, or use launcher torchrun.",
            )


def _unquotable(job: Job) -> Iterator[Unsupported]:
    """Yield words that need quotes: the operator joins the arguments by spaces into a bash line."""
    entry = job.entrypoint
    words = [(Pointer("/entrypoint"), word) for word in (*entry.argv, entry.script, entry.module)]
    for path, word in (*words, *argument_words(job)):
        if word and not command.SHELL_SAFE.fullmatch(word):
            yield Unsupported(
                path,
                f"the Lattice agent loses the quoting of {word!r}",
                "Use letters, digits and _@%+=:,./- only, or pass the value through env.",
            )


TARGET = Target(
    of=KIND,
    summary="BreezeML Lattice: jobs resized between minSize and maxSize by priority.",
    template="trainingjob.yaml",
    container="trainingjob",
    values=_values,
    longest_suffix=_longest_suffix,
    unsupported=_unsupported,
    facts=(*facts.PODS, Fact(("targets", "trainingjob", "rendezvous"), _rendezvous)),
    deviations=(
        Deviation(
            about="Retries",
            text="A pod that fails ends a run that Lattice's agent starts. The agent itself starts "
            "the processes again when a node or the network is lost, without a limit.",
            fields=("/pods/*/restart/**",),
            when=lambda job, _: injects(job) and job.retries > 0,
        ),
        Deviation(
            about="Ranks",
            text="torchrun without the agent gets them from the rendezvous of the environment.",
            fields=("/pods/*/processes/**",),
            when=lambda job, env: bool(env.targets[job.target].rendezvous_endpoint),
        ),
        Deviation(
            about="A custom command",
            text="Lattice's agent starts it once a process, while elsewhere it is started once a "
            "node and has to start the processes.",
            fields=("/pods/*/processes/**",),
            when=lambda job, _: (
                injects(job) and not job.entrypoint.launched and job.procs_per_node > 1
            ),
        ),
        Deviation(
            about="Elastic jobs",
            text="Lattice decides how many of the nodes they start with.",
            fields=("/nodes",),
            when=lambda job, _: job.elastic is not None,
        ),
    ),
    meeting=_meeting,
    elastic=True,
)
