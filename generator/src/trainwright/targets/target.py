"""The target type: a frozen value that says what one workload kind needs beyond the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from trainwright.model import Data, Environment, Job


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A field of the spec that a target cannot express, why, and what to do."""

    path: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One workload kind a job can become.

    `template` is the chart template that shapes it; `values` are the chart values in which it
    differs from the others; `longest_suffix` is what the controller appends to the object's name
    at most; `unsupported` names what it cannot express. `elastic` says whether nodes may come and
    go while it runs; `section` is the part of a job spec that no other target reads. `envelope`
    makes a Kubernetes-like object of what is rendered, for targets that are none themselves: no
    GitOps engine applies those.
    """

    name: str
    api_version: str
    kind: str
    summary: str
    template: str
    values: Callable[[Job, Environment, str], dict[str, Data]]
    longest_suffix: Callable[[Job], str]
    unsupported: Callable[[Job, Environment], Iterator[Unsupported]]
    elastic: bool = False
    section: str = ""
    envelope: Callable[[Mapping[str, Data]], dict[str, Data]] | None = None
