"""KubeRay's RayJob: a cluster of Ray for each attempt, and a program on its head.

Facts: ray-project/kuberay v1.7.0, ray-operator/controllers/ray and its common/{job,pod}.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import facts, indexed, queueing
from trainwright.kinds.rayjob import KIND, entrypoint
from trainwright.kinds.target import Deviation, Meeting, Target, Unsupported, argument_words
from trainwright.objects.pods import command
from trainwright.objects.pods.flags import flag_arguments
from trainwright.objects.pods.launchers import plain
from trainwright.objects.pods.references import NotKnown
from trainwright.rule_model.upstream import upstream

# Our entrypoint's own, which does not run here.
_RUNTIME_OPTIONS = frozenset({"rendezvous-timeout", "log-format"})
_RETRIES = upstream("kuberay/end-of-a-job")
_VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0"}
_VARIABLE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_.-]*\)")


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    return {
        "nodes": job.nodes,
        "command": [],
        "args": [],
        "restartPolicy": "",
        "env": _VARIABLES,
        "runPolicy": indexed.run_policy(job, environment, job.retries),
        "ray": {
            "entrypoint": entrypoint.text(_words(job)),
            "startParams": dict(_start_params(job)),
        },
    }


def _words(job: Job) -> list[str]:
    """Return the whole command of the program, which Ray starts once, on the head."""
    alone = command.command_line(replace(job, launcher="python"))
    return [*alone, *job.entrypoint.args, *flag_arguments(job.flags, job.flag_style)]


def _start_params(job: Job) -> Iterator[tuple[str, str]]:
    """Yield options of `ray start`, beside those that KubeRay takes from the pods' limits."""
    given = {plain(name): value for name, value in job.launcher_options.items()}
    cpus = given.get("num-cpus") or command.ray_cpus(job)
    if cpus:
        yield "num-cpus", str(cpus)
    if size := given.get("object-store-memory"):
        yield "object-store-memory", str(int(quantity.parse(str(size))))
    if job.metrics:
        yield "metrics-export-port", str(job.metrics.port)


_UNKNOWN = NotKnown(
    "Ray's own nodes meet, and a program finds them by ray.init()",
    "Call ray.init() in the program, or use target jobset with launcher: ray.",
)


def _unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    yield from queueing.unsuspendable(job, environment)
    not_started = tuple(_not_started(job))
    yield from not_started or _without_ranks(job)
    yield from _of_our_entrypoint(job)
    yield from _not_expanded(job)
    version = environment.targets[job.target].version
    if job.retries and version and not _RETRIES.holds(version):
        yield Unsupported(
            Pointer("/retries"),
            f"KubeRay {version} tries no RayJob again: backoffLimit came with {_RETRIES.since}",
            f"Use KubeRay {_RETRIES.since} or newer, or set retries: 0.",
        )
    if job.gang or (job.queue and queueing.gang_scheduler(job, environment)):
        field = "gang" if job.gang else "queue"
        yield Unsupported(
            Pointer.of(field),
            "KubeRay makes the PodGroup of a RayJob, for the scheduler it was installed with",
            f"Remove it ({field}: null), or use a queue of Kueue, or target jobset.",
        )
    if job.topology:
        yield Unsupported(
            Pointer("/topology"),
            "Kueue places the head, the workers and the submitter of a RayJob each by itself",
            "Remove it (topology: null), or use target jobset, whose pods are one set.",
        )
    if job.network:
        yield Unsupported(
            Pointer("/network"),
            "KubeRay reads the state of the program from the head, from outside of the job",
            "Remove network (network: open), or use target jobset with launcher: ray.",
        )


def _not_started(job: Job) -> Iterator[Unsupported]:
    """Refuse what Ray cannot start."""
    if job.entrypoint.image:
        yield Unsupported(
            Pointer("/entrypoint/image"),
            "a RayJob starts a command, and does not know what the image starts",
            "Write that command as entrypoint.argv, or use another target.",
        )
    elif command.parse(tuple(job.entrypoint.argv)).launcher == "ray":
        yield Unsupported(
            Pointer("/entrypoint/argv"),
            "the command starts Ray, which KubeRay has started",
            "Write the program that calls ray.init().",
        )
    elif job.entrypoint.launched and job.launcher not in TARGET.launchers:
        yield Unsupported(
            Pointer("/launcher"),
            f"a RayJob has its program on one node of a Ray cluster, and {job.launcher} starts "
            "ranks on all",
            "Use launcher: ray where the program calls ray.init(), or target jobset.",
        )


def _without_ranks(job: Job) -> Iterator[Unsupported]:
    """Refuse settings of ranks other than the defaults."""
    gpus = job.resources.gpu
    if job.procs_per_node != (gpus or 1):
        yield Unsupported(
            Pointer("/procsPerNode"),
            "Ray starts as many processes as the program requests",
            "Remove it (procsPerNode: auto).",
        )
    if job.backend != ("nccl" if gpus else "gloo"):
        yield Unsupported(
            Pointer("/backend"),
            "Ray starts no ranks: the program chooses their backend",
            "Remove it (backend: auto).",
        )


def _of_our_entrypoint(job: Job) -> Iterator[Unsupported]:
    """Refuse what the image's entrypoint does elsewhere: here KubeRay starts Ray."""
    remedy = "Remove it, or use target jobset with launcher: ray."
    if job.preflight:
        message = "checks before training are the entrypoint's, and KubeRay starts Ray without it"
        yield Unsupported(Pointer("/preflight"), message, remedy)
    if job.checkpoint and job.checkpoint.peer_copies:
        message = "copies in memory are those of ranks, and Ray starts none"
        yield Unsupported(Pointer("/checkpoint/peerCopies"), message, remedy)
    for name in job.launcher_options:
        if plain(name) in _RUNTIME_OPTIONS:
            message = f"{name} is the entrypoint's, and KubeRay starts Ray without it"
            yield Unsupported(Pointer.of("launcherOptions", name), message, remedy)


def _not_expanded(job: Job) -> Iterator[Unsupported]:
    """Refuse references to variables, which the submitter has not."""
    argv = ((Pointer("/entrypoint/argv"), word) for word in job.entrypoint.argv)
    for path, word in (*argv, *argument_words(job)):
        if match := _VARIABLE.search(word):
            yield Unsupported(
                path,
                f"{match.group()} is not replaced: the pod that submits the program has none of "
                "its variables",
                "Read the variable in the program.",
            )


TARGET = Target(
    of=KIND,
    summary="KubeRay: a program of Ray on a cluster that is made for it.",
    template="rayjob.yaml",
    container=KIND.container,
    launchers=("ray",),
    values=_values,
    # KubeRay takes names of 47 characters: <run>-<cluster>-head-<pod>.
    longest_suffix=lambda _: "-abcde-head-abcde",
    unsupported=_unsupported,
    # Ray's metrics have one port per node, however many processes the program requests.
    prepared=lambda job, _: replace(job, procs_per_node=1),
    facts=(*facts.PODS, facts.QUEUEING),
    meeting=lambda _job, _environment, _name: Meeting(_UNKNOWN, _UNKNOWN, _UNKNOWN),
    controller_labels=tuple(f"ray.io/{name}" for name in ("node-type", "group", "cluster")),
    deviations=(
        Deviation(
            about="The program",
            text="Ray starts it once, on the head, when all pods are ready, and without the "
            "image's entrypoint: there are no checks before it, no report of what failed, and no "
            "exit codes after which no retry helps. What it prints is the log of a pod of half a "
            "core, which submits it.",
            fields=(
                "/pods/*/program/options/*",
                "/pods/*/restart/final",
                *(f"/pods/*/env/{name}" for name in _VARIABLES),
            ),
        ),
        Deviation(
            about="A custom command",
            text="It is started once, on the head, while elsewhere it is started on each node.",
            fields=("/pods/*/processes/**", "/pods/*/env/*", "/pods/*/program/**"),
            when=lambda job, _: not job.entrypoint.launched,
        ),
        Deviation(
            about="Retries",
            text="A program that fails has all pods made anew, in another cluster, whatever its "
            "exit code. A worker that is lost is made again beside the others, and the program "
            "decides. A submitter that loses its connection is started again twice; where the head "
            "was lost as well, it submits the program once more, which no limit counts.",
            fields=("/pods/*/restart/together",),
            when=lambda job, _: job.retries > 0,
        ),
        Deviation(
            about="Success",
            text="The program decides; the other nodes are ended with it.",
            fields=("/success",),
            when=lambda job, _: job.nodes > 1,
        ),
        Deviation(
            about="Longest duration",
            text=indexed.DEADLINE,
            fields=("/deadline_of",),
            when=lambda job, _: job.max_duration is not None,
        ),
        Deviation(
            about="Network",
            text="Ray's dashboard, which starts programs for any client, is open to the "
            "pods of the cluster: KubeRay needs it. Elsewhere it is off.",
        ),
        Deviation(
            about="Grace period",
            text="Ray gets the signal, and ends the program with its other processes: what it does "
            "not save by itself is lost.",
        ),
    ),
)
