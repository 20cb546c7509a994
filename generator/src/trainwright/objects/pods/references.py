"""References to facts about the run in a job's texts, such as `${{ run.name }}`.

The form is that of GitHub Actions, which means nothing to a shell, to Helm or to the kubelet.
https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from trainwright.datatypes.frozen import dataclass

# What can be referred to, and what it stands for. Facts from the spec have the names of its fields.
REFERENCES: Mapping[str, str] = {
    "run.name": "the name of the run's object, which begins those of its pods and services",
    "run.number": "the number of the run, as `rerun` raises it",
    "job.name": "the name of the job",
    "environment.name": "the name of the environment",
    "namespace": "the namespace of the run's objects",
    "nodes": "the number of nodes",
    "elastic.minNodes": "the fewest nodes of an elastic job",
    "elastic.maxNodes": "the most nodes of an elastic job",
    "procsPerNode": "the number of processes per node",
    "resources.gpu": "the number of GPUs per node",
    "world.size": "the number of processes of all nodes",
    "node.rank": "the number of the node, from 0: another one in each pod",
    "rank0.address": "the host name at which the nodes meet: that of rank 0",
    "rank0.port": "the port at which the nodes meet",
    "checkpoint.folder": "the folder of the run's checkpoints",
}
# A name ends before the next reference, so that no letter is read twice.
_REFERENCE = re.compile(
    r"(?P<literal>\$)?\$\{\{(?:(?P<name>(?:[^\n$}]|\$(?!\{\{)|\}(?!\}))*+)\}\})?"
)
_NEAR = 0.6  # how alike a name is to the one that was meant
# Names that launchers and other tools have for the same facts.
_ALSO = {
    "masteraddr": "rank0.address",
    "masteraddress": "rank0.address",
    "masterport": "rank0.port",
    "mainprocessip": "rank0.address",
    "mainprocessport": "rank0.port",
    "nnodes": "nodes",
    "numnodes": "nodes",
    "nprocpernode": "procsPerNode",
    "gpus": "resources.gpu",
    "machinerank": "node.rank",
    "rank": "node.rank",
    "checkpointdir": "checkpoint.folder",
    "runid": "run.name",
    "jobid": "run.name",
    # of Slurm: https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
    "slurmjobid": "run.name",
    "slurmjobname": "job.name",
    "slurmnnodes": "nodes",
    "slurmjobnumnodes": "nodes",
    "slurmnodeid": "node.rank",
    "slurmntasks": "world.size",
    "slurmntaskspernode": "procsPerNode",
    "slurmgpusonnode": "resources.gpu",
    "slurmgpuspernode": "resources.gpu",
    # of SkyPilot: https://docs.skypilot.co/en/latest/running-jobs/environment-variables.html
    "skypilottaskid": "run.name",
    "skypilotnumnodes": "nodes",
    "skypilotnoderank": "node.rank",
    "skypilotnumgpuspernode": "resources.gpu",
    # of TorchX: https://docs.pytorch.org/torchx/latest/specs.html#run-macros
    "macrosappid": "run.name",
    "macrosreplicaid": "node.rank",
    "macrosrank0env": "rank0.address",
}


@dataclass(frozen=True, slots=True)
class Variable:
    """A fact that only the pod knows: the name of its environment variable.

    `field` is its path in the downward API. Without one, the operator adds the variable after those
    of the manifest, so that only command lines can use it.
    """

    name: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class NotKnown:
    """A fact that is not available on a target: why, and what to do instead."""

    why: str
    remedy: str


RunFact: TypeAlias = str | Variable | NotKnown


@dataclass(frozen=True, slots=True)
class Reference:
    """One `${{ name }}` reference in a text, and its offset; `name` is None if unclosed."""

    name: str | None
    start: int


def find(text: str) -> Iterator[Reference]:
    """Yield every reference in a text, but not `$${{`, which is an escaped `${{`."""
    for match in _REFERENCE.finditer(text) if "${{" in text else ():
        if not match["literal"]:
            name = match["name"]
            yield Reference(None if name is None else name.strip(), match.start())


def replace(text: str, facts: Mapping[str, str]) -> str:
    """Return the text with each reference replaced; one that `facts` lacks stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return match.group()[1:]
        return facts.get((match["name"] or "").strip(), match.group())

    return _REFERENCE.sub(value, text) if "${{" in text else text


def nearest(name: str, of_roles: Iterable[str] = ()) -> str:
    """Return the most similar reference, one of `of_roles` included, or "" if none is similar."""
    plain = {_plain(reference): reference for reference in (*REFERENCES, *of_roles)}
    matches = difflib.get_close_matches(_plain(name), (*plain, *_ALSO), n=1, cutoff=_NEAR)
    return {**plain, **_ALSO}[matches[0]] if matches else ""


def known_as(name: str) -> str:
    """Return the reference for a fact by another name of it, such as MASTER_ADDR, or ""."""
    plain = {_plain(reference): reference for reference in REFERENCES}
    return {**plain, **_ALSO}.get(_plain(name), "")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
