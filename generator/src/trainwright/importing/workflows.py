"""Training that a step of an Argo Workflow starts: refused, with advice on what to take out of it.

A step runs after others and takes in their results, which no manifest shows.
https://argo-workflows.readthedocs.io/en/latest/walk-through/kubernetes-resources/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from trainwright.datatypes.data import Data, dig, mapping, mappings, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import SERVED
from trainwright.kinds.reading import ImportingError, SourceObject
from trainwright.kinds.roles import roles
from trainwright.objects.pods.launching import launches
from trainwright.objects.pods.template import Container

# Kinds that keep pods running as servers for others, and train nothing.
SERVERS = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"})
# By kind, where its templates are.
KINDS: Mapping[GroupKind, tuple[str, ...]] = {
    GroupKind("argoproj.io", kind): at
    for kind, at in {
        "Workflow": ("spec",),
        "WorkflowTemplate": ("spec",),
        "ClusterWorkflowTemplate": ("spec",),
        "CronWorkflow": ("spec", "workflowSpec"),
    }.items()
}


def refuse_training(part: SourceObject) -> tuple[SourceObject, ...]:
    """Return the workflow as the only part. Raise ImportingError if one of its templates trains."""
    above = KINDS[Manifest(body=part.body).group_kind]
    for index, template in enumerate(mappings(dig(part.body, *above, "templates"))):
        at, name = Pointer.of(*above, "templates", index), text(template.get("name"))
        for where, what in _training(template):
            title = f"{part.body['kind']}/{text(part.metadata.get('name')) or '(unnamed)'}"
            raise ImportingError(
                f"{part.place(at / where)}: {title} (argoproj.io): "
                f'its template "{name}" starts {what}. {_REMEDIES[where]}'
            )
    return (part,)


_REMEDIES = {
    "resource": "Write the text of resource.manifest into a file of its own, with the values of "
    "its {{…}}, and import that; the workflow can wait for the run by its name",
    "container": "Write the container into a Job, with the values of its {{…}}, and import that",
    "script": "Write the script into a Job, with the values of its {{…}}, and import that",
}


def _training(template: Mapping[str, Data]) -> Iterator[tuple[str, str]]:
    """Yield each field of a template that starts training, and what it starts."""
    held = _held(text(dig(template, "resource", "manifest")))
    pods = held.group_kind in SERVED or roles({**held.body, "kind": "pods"})
    if pods and held.kind not in SERVERS and text(dig(template, "resource", "action")) in _STARTS:
        yield "resource", f"a {held.kind}"
    for where in ("container", "script"):
        body = mapping(template.get(where))
        words = Container("", body).command_line if body else ()
        if launches((*words, text(body.get("source")))):
            yield where, "a launcher of training"


_STARTS = ("create", "apply", "")


def _held(manifest: str) -> Manifest:
    """Return the object in a text that may have references (`{{…}}`) of the workflow anywhere."""
    try:
        body = yaml.safe_load(manifest.replace("{{", "").replace("}}", ""))
    except yaml.YAMLError:
        body = None
    return Manifest(body=body if isinstance(body, dict) else {})
