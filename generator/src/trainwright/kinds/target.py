"""The target type: a frozen value with what one workload kind needs beyond the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.job import GIVEN, Job
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.kind import Kind
from trainwright.objects.pods import command
from trainwright.objects.pods.command import Command
from trainwright.objects.pods.flags import flag_words
from trainwright.objects.pods.launchers import own_options, plain
from trainwright.objects.pods.launching import plain_python
from trainwright.objects.pods.references import NotKnown, RunFact
from trainwright.rule_model.upstream import Behaviour


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A field of the spec that a target cannot express, why, and what to do.

    `within` is the line and column, from 0, of the offending place if the value is a text. Without
    an `effect` the field would be ignored, or refused by the API server.
    """

    path: Pointer
    message: str
    remedy: str
    within: tuple[int, int] | None = None
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Something that a target renders, but that behaves differently than on other targets.

    `fields` are the values of the normal form (`equivalence`) in which it shows, as patterns of
    pointers; there are none for what happens outside of the pods. `when` is whether it holds
    for a job.
    """

    about: str
    text: str
    fields: tuple[str, ...] = ()
    when: Callable[[Job, Environment], bool] = lambda _job, _environment: True

    def covers(self, path: Pointer) -> bool:
        """Whether a value of the normal form may differ because of it, of a role's pods too."""
        return any(map(in_group(path).matches, self.fields))


_ROLE = re.compile(r"^/roles/[^/]+(?=/pods/)")


def in_group(path: Pointer) -> Pointer:
    """Return a value's pointer in a normal form without its group of pods."""
    return Pointer(_ROLE.sub("", path))


def given(job: Job, without: Collection[str] = ()) -> dict[Pointer, bool]:
    """Return for each field that reaches pods as it is written whether a job writes it."""
    return {
        Pointer.of(spelled(name)): getattr(job, name) not in (None, "", (), {})
        for name in GIVEN
        if name not in without
    }


def argument_words(job: Job) -> Iterator[tuple[Pointer, str]]:
    """Yield each argument of the program and each launcher option, with the field it is from."""
    yield from ((Pointer("/entrypoint/args"), word) for word in job.entrypoint.args)
    yield from ((Pointer("/launcherOptions"), word) for word in own_options(job))
    for flag, value in job.flags.items():
        yield from ((Pointer.of("flags", flag), w) for w in flag_words(flag, value, job.flag_style))


def one_process(job: Job) -> Iterator[Unsupported]:
    """Refuse several processes per node if nothing would start them."""
    if job.procs_per_node == 1 or job.role:  # which serves by itself, with all GPUs
        return
    at, remedy = "", ""
    if job.entrypoint.launched and job.launcher == "python":
        at, remedy = "/launcher", "Use launcher trainwright or torchrun, or set procsPerNode: 1."
    elif python := not job.entrypoint.launched and plain_python(job.entrypoint.argv):
        at, remedy = "/entrypoint/argv", _launched(command.parse(python), python)
    if at:
        requested = f"python starts one process per node, but {job.procs_per_node} are requested"
        yield Unsupported(Pointer(at), requested, remedy, effect=_WAITING)


_WAITING = "The processes that start wait for the others, until they time out."


def _launched(read: Command, python: tuple[str, ...]) -> str:
    """Return how to write a command of Python for a launcher."""
    program, *arguments = python[read.program :]
    field = "module" if read.is_module else "script"
    rest = " and its arguments as `args`" if arguments else ""
    return (
        f"Write `launcher: torchrun` and `entrypoint: {{{field}: {program}}}` in place of argv"
        f"{rest}; or `procsPerNode: 1`, if one process drives all GPUs of a node."
    )


def own_rendezvous(job: Job, why: str) -> Iterator[Unsupported]:
    """Refuse a job's own rendezvous options if the target sets the rendezvous already."""
    for name in job.launcher_options:
        if plain(name).startswith("rdzv-") and plain(name) != "rdzv-conf":
            at = Pointer.of("launcherOptions", name)
            yield Unsupported(at, f"{name} has no effect here: {why}", "Remove it.")


def fixed_nodes(job: Job) -> Iterator[Unsupported]:
    """Refuse launchers that have to know all nodes where these come and go."""
    if (
        job.elastic
        and job.launcher in ("accelerate", "deepspeed", "ray")
        and job.entrypoint.launched
    ):
        yield Unsupported(
            Pointer("/launcher"),
            f"{job.launcher} starts a fixed number of nodes, and those of an elastic job change",
            "Use launcher trainwright or torchrun, or set nodes instead of elastic.",
        )


@dataclass(frozen=True, slots=True)
class Meeting:
    """The rendezvous of a run, and the rank of each node: the values of `${{ rank0.address }}` and
    the like.
    """

    address: RunFact
    port: RunFact
    node_rank: RunFact


def _nowhere(_job: Job, _environment: Environment, _name: str) -> Meeting:
    unknown = NotKnown("this target does not give it to a job", "Write the value itself.")
    return Meeting(unknown, unknown, unknown)


@dataclass(frozen=True, slots=True)
class Serving:
    """How a target renders the roles of a job: the chart values of a role that are specific to the
    target, the host names of its pods in a run of a given name, and the pointers below which an
    object holds the role.
    """

    values: Callable[[Job, Environment], dict[str, Data]]
    hosts: Callable[[Job, str], tuple[str, ...]]
    places: Callable[[Job, int], Iterable[str]]  # of a role, by its number among them


POOL = "*"  # in a fact's path: the pool that the job asks for


@dataclass(frozen=True, slots=True)
class Fact:
    """A property of an environment that decides rendered bytes: its path in environment.yaml, and
    the value for a job. What is empty changes no byte of that job.

    A fact that a later version adds must have a value for every job that it is about, "none" if
    need be. A record without it was then written by a version that did not know it, which is no
    reason to hold anything back.

    `alike` is whether a job's objects are the same in two environments with different values.
    """

    path: tuple[str, ...]
    value: Callable[[Job, Environment], Data]
    alike: Callable[[Job, Environment, Environment], bool] = lambda _job, _one, _other: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One workload kind a job can become.

    `template` is the chart template that shapes it; `values` are the chart values in which it
    differs from the others; `longest_suffix` is the most that the controller appends to the
    object's name; `unsupported` yields what it cannot express, `deviations` are what it expresses
    differently from the others. `facts` are those of an environment that change its rendered bytes,
    and so are part of a run's name. `elastic` is whether nodes may come and go while it runs,
    `resizing` which feature of the platform could change their number on a live object; it is not
    used. `succeeds` are the kinds whose jobs `import --to` moves to it. `envelope` wraps what is
    rendered into the form of a Kubernetes object, for targets that are none: no GitOps engine
    applies those. `controller_labels` are the pod labels that its controller writes: it overrides
    or refuses those of the template. `restricted_needs` is what its operator has to be given before
    namespaces with the Pod Security level `restricted` admit its pods. `companions` are the kinds
    of the objects that it alone renders beside a run. `meeting` is where the nodes of a run of that
    name meet. `numbered` is what the names of its pods have between the name of the run and their
    number from 0, if that is all. `container` is the name of the training container in its pods.
    `serving` is how it renders roles, None if it has none. `launchers` are those that start a
    program here, if not all do.
    """

    of: Kind
    summary: str
    template: str
    values: Callable[[Job, Environment, str], dict[str, Data]]
    longest_suffix: Callable[[Job], str]
    unsupported: Callable[[Job, Environment], Iterator[Unsupported]]
    facts: tuple[Fact, ...]
    deviations: tuple[Deviation, ...] = ()
    container: str = ""
    elastic: bool = False
    resizing: Behaviour | None = None
    succeeds: tuple[str, ...] = ()
    envelope: Callable[[Mapping[str, Data]], dict[str, Data]] | None = None
    controller_labels: tuple[str, ...] = ()
    restricted_needs: str = ""
    companions: Callable[[Environment], tuple[GroupKind, ...]] = lambda _: ()
    meeting: Callable[[Job, Environment, str], Meeting] = _nowhere
    numbered: str = ""
    prepared: Callable[[Job, Environment], Job] = lambda job, _: job
    serving: Serving | None = None
    launchers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def kind(self) -> str:
        return self.of.kind

    @property
    def api_version(self) -> str:
        return self.of.api_version

    def makes(self, manifest: Manifest) -> bool:
        """Whether an object of a run is the one that trains; an adopted one may be of any kind."""
        return self.kind in ("", manifest.kind)
