"""MultiKueue: jobs that run on another cluster, to which only the job itself is copied."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import text
from trainwright.datatypes.groupkind import LOCALQUEUE, SERVICE, GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import upstream
from trainwright.rules.gitops import referred_objects
from trainwright.rules.kueue import INTEGRATIONS

_KINDS = tuple(INTEGRATIONS)
_ELSEWHERE = upstream("kueue/managed-by-multikueue").value


def _mirrored(subject: Subject) -> bool:
    """Whether MultiKueue runs a job on another cluster."""
    queue = text(subject.labels.get(QUEUE_LABEL))
    return queue in subject.environment.multi_kueue_queues or (
        subject.spec.get("managedBy") == _ELSEWHERE
    )


def _referred(subject: Subject) -> Iterator[tuple[GroupKind, str, str]]:
    """Yield kind and name of each object that a job's pods need, and where they refer to it."""
    for kind, name, pointer in referred_objects(subject):
        if name and kind != LOCALQUEUE:
            yield kind, name, pointer
    for template in subject.templates:
        if subdomain := text(template.spec.get("subdomain")):
            yield SERVICE, subdomain, f"{template.pointer}/spec"


def _split(subject: Subject) -> tuple[dict[str, str], dict[str, str]]:
    """Return a job's needs, as pointers by title: those applied with it here, and others."""
    here: dict[str, str] = {}
    other: dict[str, str] = {}
    for kind, name, pointer in _referred(subject):
        there = subject.around.named(kind, name, subject.manifest.namespace)
        (here if there else other).setdefault(f"{kind} {name}", pointer)
    for sibling in subject.siblings if subject.job else ():
        if sibling.identity != subject.manifest.identity:
            here.setdefault(f"{sibling.kind} {sibling.name}", "")
    return here, other


@error("TW623", kinds=_KINDS, about=(QUEUE_LABEL, "managedBy"), spec=Pointer("/queue"))
def companion_not_mirrored(subject: Subject) -> Iterator[Hit]:
    if _mirrored(subject):
        here, _ = _split(subject)
        for title, pointer in here.items():
            yield Hit(pointer, f"{title} is applied here, and not on the worker clusters")


@warning("TW624", kinds=_KINDS, about=(QUEUE_LABEL, "managedBy"), spec=Pointer("/queue"))
def reference_on_worker_clusters(subject: Subject) -> Iterator[Hit]:
    if _mirrored(subject):
        _, other = _split(subject)
        for title, pointer in other.items():
            yield Hit(pointer, f"{title} has to be on every worker cluster")


RULES = defined_in(globals())
