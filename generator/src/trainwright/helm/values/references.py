"""References in the texts of a job, replaced by what its target gives the run.

A fact that differs between the pods of a run becomes `$(NAME)`, which the kubelet replaces in
command lines and in variables, and nowhere else.
https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from posixpath import join
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Checkpoint, Job
from trainwright.datatypes.pointer import Pointer
from trainwright.findings import diagnostics as dx
from trainwright.kinds import TARGETS
from trainwright.kinds.target import Unsupported
from trainwright.objects.pods.command import MeetingPlace
from trainwright.objects.pods.references import (
    REFERENCES,
    NotKnown,
    RunFact,
    Variable,
    find,
    nearest,
    replace,
)

Problem: TypeAlias = tuple[dx.Diagnostic, Unsupported]
Visit: TypeAlias = Callable[[Pointer, str], str]

_COMMAND, _ENV = ("entrypoint/argv", "entrypoint/args", "flags", "launcherOptions"), ("env",)
_ELSEWHERE = frozenset({"pool", "waivers", "name", "roles"})  # not the job's own, or not of the run
_ROLE = "role"  # its fields are written among those of its job
_ROOT = Pointer()
_LITERAL = "Write `$${{` where the text itself is meant."
_ELASTIC = "nodes come and go in an elastic job"


def problems(job: Job, environment: Environment, name: str) -> Iterator[Problem]:
    """Yield every reference that cannot be replaced, and why."""
    references = [(at, text, r) for at, text in _texts(job) for r in find(text)]
    facts = facts_of(job, environment, name) if references else {}
    for at, text, reference in references:
        for kind, problem in _problem(at, reference.name, facts, TARGETS[job.target].kind):
            line = text.count("\n", 0, reference.start)
            column = reference.start - (text.rfind("\n", 0, reference.start) + 1)
            yield kind, dataclasses.replace(problem, within=(line, column))


@dataclass(frozen=True, slots=True)
class Resolved:
    """A job with every reference replaced, except for those that `problems` reports, and the
    downward API variables that the replacements need, with their fields.
    """

    job: Job
    variables: Mapping[str, str]


def resolved(job: Job, environment: Environment, name: str) -> Resolved:
    texts = [text for _, text in _texts(job)]
    if not texts:
        return Resolved(job, {})
    facts = facts_of(job, environment, name)
    values = {key: _written(fact) for key, fact in facts.items() if not isinstance(fact, NotKnown)}
    used = [facts.get(r.name or "") for text in texts for r in find(text)]
    needed = {f.name: f.field for f in used if isinstance(f, Variable) and f.field}
    return Resolved(_mapped(job, _ROOT, lambda _, text: replace(text, values)), needed)


def facts_of(job: Job, environment: Environment, name: str) -> dict[str, RunFact]:
    """Return the value of every reference in a run of the job that is named `name`."""
    meeting = TARGETS[job.target].meeting(job, environment, name)
    facts: dict[str, RunFact] = {
        "run.name": name,
        "run.number": str(job.run),
        "job.name": job.name,
        "environment.name": job.environment,
        "namespace": job.namespace,
        "procsPerNode": str(job.procs_per_node),
        "resources.gpu": str(job.resources.gpu),
        "rank0.address": meeting.address,
        "rank0.port": meeting.port,
        "checkpoint.folder": _checkpoints(job, name),
    }
    if job.elastic:
        remedy = "Use `${{ elastic.maxNodes }}`, or ask the process group in the program."
        unknown = NotKnown(_ELASTIC, remedy)
        facts |= dict.fromkeys(("nodes", "world.size", "node.rank"), unknown)
        facts["elastic.minNodes"] = str(job.elastic.min_nodes)
        facts["elastic.maxNodes"] = str(job.elastic.max_nodes)
    else:
        fixed = NotKnown("the job is not elastic", "Use `${{ nodes }}`.")
        facts |= dict.fromkeys(("elastic.minNodes", "elastic.maxNodes"), fixed)
        facts["nodes"] = str(job.nodes)
        facts["world.size"] = str(job.nodes * job.procs_per_node)
        facts["node.rank"] = "0" if job.nodes == 1 else meeting.node_rank
    for role in job.roles:
        facts |= _of_role(role, name)
    return facts


def _of_role(role: Job, name: str) -> dict[str, RunFact]:
    """Return the facts by which the pods of a role are reached: hosts, URLs and port."""
    serving, own = TARGETS[role.target].serving, role.role
    if serving is None or own is None:
        return {}
    hosts = serving.hosts(role, name)
    facts: dict[str, RunFact] = {"hosts": ",".join(hosts)}
    facts |= {f"hosts[{index}]": host for index, host in enumerate(hosts)}
    if own.port is None:
        remedy = f"Set roles.{own.name}.port, or use `${{{{ roles.{own.name}.hosts }}}}`."
        facts |= dict.fromkeys(("url", "urls", "port"), NotKnown("the role has no port", remedy))
    else:
        urls = [f"http://{host}:{own.port}" for host in hosts]
        facts |= {"url": urls[0], "urls": ",".join(urls), "port": str(own.port)}
    return {f"roles.{own.name}.{key}": fact for key, fact in facts.items()}


def _checkpoints(job: Job, name: str) -> RunFact:
    if job.role and job.checkpoint is None:
        remedy = "Write its folder: where the volume is mounted, checkpoint.path, ${{ run.name }}."
        return NotKnown("it is of the job that trains, and a role has none of its own", remedy)
    if job.checkpoint is None:
        return NotKnown("the job has no checkpoint", "Set checkpoint, or write the folder.")
    return checkpoint_folder(job, job.checkpoint, name)


def meeting_place(job: Job, environment: Environment, name: str) -> MeetingPlace | None:
    """Return where nodes meet, in command-line words, or None if the target cannot know it."""
    meeting = TARGETS[job.target].meeting(job, environment, name)
    words = [
        _written(fact)
        for fact in (meeting.address, meeting.port, meeting.node_rank)
        if not isinstance(fact, NotKnown)
    ]
    return MeetingPlace(*words) if len(words) == len(fields(MeetingPlace)) else None


def checkpoint_folder(job: Job, checkpoint: Checkpoint, name: str) -> str:
    """Return the folder of a run: retries share its checkpoints, and no other run does."""
    return join(mount_path(job, checkpoint.volume), checkpoint.path, name)


def mount_path(job: Job, volume: str) -> str:
    """Return where the training container first has a volume."""
    return next(v for v in job.volumes if v.name == volume).mounted[0].mount_path


def _written(fact: str | Variable) -> str:
    return f"$({fact.name})" if isinstance(fact, Variable) else fact


def _problem(
    at: Pointer, reference: str | None, facts: Mapping[str, RunFact], kind: str
) -> Iterator[Problem]:
    """Yield why a reference cannot be replaced, if it cannot."""
    if reference is None:
        message = f"`${{{{` in {at.dotted} is not closed by `}}}}` on the same line"
        yield dx.REFERENCE, Unsupported(at, message, f"Close it. {_LITERAL}")
        return
    shown, fact = f"`${{{{ {reference} }}}}`", facts.get(reference)
    if fact is None:
        yield dx.REFERENCE, _unknown(at, reference, shown, facts)
    elif isinstance(fact, NotKnown):
        yield dx.UNSUPPORTED, Unsupported(at, f"{shown} is not known: {fact.why}", fact.remedy)
    elif isinstance(fact, Variable) and not _is_below(at, (*_COMMAND, *_ENV)):
        message = (
            f"{shown} differs between pods, which the command and the variables of the training "
            f"container can say, and {at.dotted} cannot"
        )
        remedy = f"Read the variable {fact.name} there, or use it in flags or entrypoint.argv."
        yield dx.UNSUPPORTED, Unsupported(at, message, remedy)
    elif isinstance(fact, Variable) and not fact.field and _is_below(at, _ENV):
        message = f"{shown} is {fact.name}, which is set after the variables of the job"
        remedy = f"Read {fact.name} in the program, or use it in flags or entrypoint.argv."
        yield dx.UNSUPPORTED, Unsupported(at, message, remedy)


def _unknown(at: Pointer, reference: str, shown: str, facts: Mapping[str, RunFact]) -> Unsupported:
    of_roles = sorted(fact for fact in facts if fact.startswith("roles.") and "[" not in fact)
    if message := _beyond(reference, shown, facts):
        return Unsupported(at, message, "Write the number of a pod that is there.")
    meant = nearest(reference, of_roles)
    hint = f": did you mean `${{{{ {meant} }}}}`?" if meant else ""
    listed = ", ".join((*REFERENCES, *of_roles))
    remedy = f"Known references: {listed}. {_LITERAL}"
    return Unsupported(at, f"there is no reference {shown}{hint}", remedy)


def _beyond(reference: str, shown: str, facts: Mapping[str, RunFact]) -> str:
    """Return a message if a reference numbers a pod that its role does not have; else empty."""
    match = re.fullmatch(r"(roles\.[a-z0-9-]+\.hosts)\[[^\]]*\]", reference)
    of_role = [fact for fact in facts if match and fact.startswith(f"{match[1]}[")]
    if not of_role:
        return ""
    numbers = f"0 to {len(of_role) - 1}" if len(of_role) > 1 else "0"
    return f"there is no {shown}: the pods of the role have the numbers {numbers}"


def _is_below(at: Pointer, places: tuple[str, ...]) -> bool:
    return any(at == f"/{place}" or at.startswith(f"/{place}/") for place in places)


# --- every text of a job -------------------------------------------------------------------------


def _texts(job: Job) -> Iterator[tuple[Pointer, str]]:
    """Yield the position and text of all that has a reference, or what looks like one."""
    texts: list[tuple[Pointer, str]] = []

    def visit(at: Pointer, text: str) -> str:
        if "${{" in text:
            texts.append((at, text))
        return text

    _mapped(job, _ROOT, visit)
    return iter(texts)


def _is_in(value: Data) -> bool:
    """Whether any text of a value may hold a reference."""
    ahead = [value]  # recursion takes three times as long, in a hot place
    while ahead:
        item = ahead.pop()
        kind: type = type(item)  # which is a third of the time of isinstance
        if kind is str:
            if "${{" in item:
                return True
        elif kind is dict:
            ahead += item.values()
        elif kind is tuple or kind is list:
            ahead += item
        elif kind not in _WITHOUT_TEXT:
            ahead += _inside(item, kind)
    return False


_WITHOUT_TEXT = frozenset({type(None), bool, int, float})


def _inside(value: Data, kind: type) -> list[Data]:
    """Return what a value of a type of its own holds; of a kind of text, the plain text."""
    if fields := _fields(kind):
        return [getattr(value, name) for name in fields]
    if isinstance(value, str):
        return [str(value)]
    return list(value.values()) if isinstance(value, Mapping) else []


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; empty for any other type."""
    dataclass_fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return tuple(field.name for field in dataclass_fields)


def _mapped(value: Data, at: Pointer, visit: Visit) -> Data:
    """Return the value with each text in it replaced; what does not change is the same object."""
    if isinstance(value, str):
        return visit(at, value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, at / key, visit) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = (_mapped(item, at / _key(item, i), visit) for i, item in enumerate(value))
        return type(value)(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _mapped_fields(value, at, visit)
    return value


def _mapped_fields(value: Data, at: Pointer, visit: Visit) -> Data:
    """Return a dataclass with each text in its fields replaced."""
    changed = {}
    for field in dataclasses.fields(value):
        elsewhere = field.metadata.get("unwritten") and field.name != _ROLE
        if elsewhere or (not at and field.name in _ELSEWHERE):
            continue
        before = getattr(value, field.name)
        if not before or (not at and not _is_in(before)):  # as in most fields of most jobs
            continue
        after = _mapped(before, _below(at, field), visit)
        if after != before:
            changed[field.name] = after
    return dataclasses.replace(value, **changed) if changed else value


def _below(at: Pointer, field: dataclasses.Field[object]) -> Pointer:
    if field.name == _ROLE:
        return at
    keys = field.metadata.get("keys")
    for key in (spelled(field.name),) if keys is None else keys:
        at = at / key
    return at


def _key(item: Data, index: int) -> str | int:
    """Return an item's key in the spec: its name if people write a mapping, else its index."""
    return item.name if dataclasses.is_dataclass(item) and hasattr(item, "name") else index
