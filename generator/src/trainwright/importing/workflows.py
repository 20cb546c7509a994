"""Training that a step of an Argo Workflow or a Tekton Pipeline starts: refused, with advice on
what to take out of it.

A step runs after others and takes in their results, which no manifest shows.
https://argo-workflows.readthedocs.io/en/latest/walk-through/kubernetes-resources/
https://tekton.dev/docs/pipelines/tasks/#defining-steps
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import yaml

from trainwright.datatypes.data import Data, dig, is_accelerator, mapping, mappings, text
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.listing import article
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, holders
from trainwright.kinds import SERVED
from trainwright.kinds.reading import ImportingError, SourceObject
from trainwright.kinds.roles import roles
from trainwright.objects.pods.launching import launches, starts_ranks, training_program
from trainwright.objects.pods.template import Container

# Kinds that keep pods running as servers for others, and train nothing.
SERVERS = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"})
# By kind, where its templates are.
_ARGO: Mapping[GroupKind, tuple[str, ...]] = {
    **{
        GroupKind("argoproj.io", kind): ("spec",)
        for kind in ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate")
    },
    GroupKind("argoproj.io", "CronWorkflow"): ("spec", "workflowSpec"),
}
_TEKTON = frozenset(
    GroupKind("tekton.dev", kind)
    for kind in ("Task", "ClusterTask", "TaskRun", "Pipeline", "PipelineRun", "StepAction")
)
KINDS = frozenset({*_ARGO, *_TEKTON})


@dataclass(frozen=True, slots=True)
class _Step:
    """What starts training in a workflow: where, as part of what, and what to take out."""

    at: Pointer
    title: str
    starts: str
    remedy: str


def refuse_training(part: SourceObject) -> tuple[SourceObject, ...]:
    """Return the workflow as the only part. Raise ImportingError if one of its steps trains."""
    group_kind = part.group_kind
    steps = _of_tekton(part.body) if group_kind in _TEKTON else _of_argo(part.body, group_kind)
    for step in steps:
        title = f"{part.body['kind']}/{text(part.metadata.get('name')) or '(unnamed)'}"
        raise ImportingError(
            f"{part.place(step.at)}: {title} ({group_kind.group}): its {step.title} starts "
            f"{step.starts}. {step.remedy}"
        )
    return (part,)


_INTO_A_JOB = "Write the {} into a Job, with the values of its {}, and import that"


def _of_argo(body: Mapping[str, Data], kind: GroupKind) -> Iterator[_Step]:
    above = _ARGO[kind]
    for index, template in enumerate(mappings(dig(body, *above, "templates"))):
        at, title = Pointer.of(*above, "templates", index), f'template "{_name(template)}"'
        if held := _started_object(template):
            remedy = (
                "Write the text of resource.manifest into a file of its own, with the values of "
                "its {{…}}, and import that; the workflow can wait for the run by its name"
            )
            yield _Step(at / "resource", title, article(held), remedy)
        for field in ("container", "script"):
            container = mapping(template.get(field))
            if starts := _trains(container, text(container.get("source"))):
                remedy = _INTO_A_JOB.format(field, "{{…}}")
                yield _Step(at / field, title, starts, remedy)


def _of_tekton(body: Mapping[str, Data]) -> Iterator[_Step]:
    action = body.get("kind") == "StepAction"
    steps = [(Pointer("/spec"), mapping(body.get("spec")))] if action else _steps(body)
    for at, step in steps:
        amounts = {"resources": step.get("computeResources") or step.get("resources")}
        if starts := _trains({**step, **amounts}, text(step.get("script"))):
            title = f'step "{_name(step) or _name(mapping(body.get("metadata")))}"'
            yield _Step(at, title, starts, _INTO_A_JOB.format("step", "$(…)"))


def _steps(data: Data) -> Iterator[tuple[Pointer, Mapping[str, Data]]]:
    """Yield the steps of a task, in any part of a pipeline."""
    for at, holder in holders(data):
        for index, step in enumerate(mappings(holder.get("steps"))):
            yield at / "steps" / index, step


def _started_object(template: Mapping[str, Data]) -> str:
    """Return the kind of the training that a template makes an object of; empty without one."""
    held = _held(text(dig(template, "resource", "manifest")))
    pods = held.group_kind in SERVED or roles({**held.body, "kind": "pods"})
    starts = text(dig(template, "resource", "action")) in _STARTS
    return held.kind if pods and starts and held.kind not in SERVERS else ""


def _trains(body: Mapping[str, Data], script: str) -> str:
    """Return what tells that a container of a workflow trains; empty if nothing does."""
    container = Container("", body)
    words = (*container.command_line, script)
    if launches(words) or starts_ranks(words):
        return "a launcher of training"
    if program := training_program(words):
        return program
    devices = [
        f"{count} {name}"
        for name, count in container.extended.items()
        if is_accelerator(name) and str(count) != "0"
    ]
    return f"a program with {' and '.join(devices)}" if devices else ""


def _name(body: Mapping[str, Data]) -> str:
    return text(body.get("name"))


_STARTS = ("create", "apply", "")


# A reference to a value of the workflow.
_REFERENCE = re.compile(r"\{\{[^{}]*\}\}")


def _held(manifest: str) -> Manifest:
    """Return the object in a text that may have references of the workflow anywhere."""
    try:
        body = yaml.safe_load(_REFERENCE.sub("x", manifest))
    except yaml.YAMLError:
        body = None
    return Manifest(body=body if isinstance(body, dict) else {})
