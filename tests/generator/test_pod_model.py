"""One model of a pod: any object is read without an error of ours, by every reader."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.cluster import pods as live
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Location
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import lookup
from trainwright.files.tree import Folder
from trainwright.importing import ImportInput, candidate
from trainwright.importing.choice import choices
from trainwright.importing.equivalence import form
from trainwright.importing.reader import with_beside
from trainwright.importing.source import Source
from trainwright.importing.trial import ImportContext
from trainwright.kinds import KINDS, SERVED, TARGETS, operators
from trainwright.kinds.reading import ImportingError, SourceObject
from trainwright.kinds.subjects import subject_of
from trainwright.objects.pods.mounted import is_script
from trainwright.objects.pods.pod import ManifestError
from trainwright.objects.pods.requests import pod_requests

ENVIRONMENT = Environment(
    name="lab", namespace="lab", place=Location("lab"), kubernetes_version="1.34", targets={}
)
HERE = Path(__file__).parent / "importing"
CASES = (
    "compose-two-services",
    "job-as-kubectl-gets-it",
    "jobset-every-field-of-a-pod",
    "jobset-of-two-groups",
    "pytorchjob-elastic-imagenet",
    "pytorchjob-in-a-volcano-gang",
    "pytorchjob-volumes-and-secrets",
    "rayjob-of-equal-nodes",
    "trainingjob-custom-image",
    "trainjob-2-0-with-pod-spec-overrides",
    "trainjob-2-1-with-pod-template-overrides",
    "trainjob-2-3-with-its-runtime",
)
GONE = object()
KNOWN = (("apiVersion",), ("kind",))
# What may stand where something else should.
OTHERS: tuple[Data, ...] = (
    *(None, True, False, -1, 0, 2, 1.5, "", "x", "1", "[", "$(A"),
    *([], {}, [None], ["x"], [[]], [{}], {"x": None}, {"x": {"y": [1]}}, {"name": {}}),
    GONE,
)


@cache
def _sources() -> tuple[Source, ...]:
    found = ImportInput()
    found.files(tuple(str(HERE / "examples" / case) for case in CASES))
    return tuple(found.sources)


@cache
def _context() -> ImportContext:
    return ImportContext(Folder(HERE), "lab")


def _nodes(data: Data, at: tuple[Data, ...] = ()) -> Iterator[tuple[Data, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()  # fmt: skip
    for key, item in items:
        yield (*at, key)
        yield from _nodes(item, (*at, key))


@st.composite
def malformed(draw: st.DrawFn) -> Source:
    """A workload in which one or two values are others, or none; its kind is known."""
    source = draw(st.sampled_from(_sources()))
    bodies = copy.deepcopy([dict(part.body) for part in source.parts])
    for _ in range(draw(st.integers(1, 2))):
        body = draw(st.sampled_from(bodies))
        *above, key = draw(st.sampled_from([at for at in _nodes(body) if at not in KNOWN]))
        holder: Data = body
        for step in above:
            holder = holder[step]
        value = draw(st.sampled_from(OTHERS))
        if value is GONE:
            holder.pop(key, None) if isinstance(holder, dict) else holder.pop(key)
        else:
            holder[key] = copy.deepcopy(value)
    parts = tuple(
        SourceObject(body=body, place=part.place, beside=part.beside)
        for part, body in zip(source.parts, bodies, strict=True)
    )
    return Source(
        kind=source.kind,
        name=source.name,
        target=source.target,
        parts=parts,
        container=source.container,
        assumed=source.assumed,
    )


@given(malformed())
def test_pods_of_malformed_objects_are_read_or_refused_in_words(source: Source) -> None:
    manifests = source.manifests()
    with suppress(ManifestError):
        assert form.normal_form(operators.workload(manifests), manifests).pods


@given(malformed())
def test_malformed_objects_become_specs_or_are_refused_in_words(source: Source) -> None:
    context = _context()
    with suppress(ImportingError):
        found = with_beside(source, source.parts)
        found.check(context.environment.kubernetes_version)
        run = found.run()
        for choice in choices(context.environment, found.pod(), ""):
            assert candidate.spec(found, run, context, choice)["apiVersion"]


@given(malformed())
def test_rules_and_the_cluster_read_malformed_pods(source: Source) -> None:
    manifests = source.manifests()
    for manifest in manifests:
        subject = subject_of(manifest, ENVIRONMENT, None, manifests)
        for template in subject.pod_templates:
            assert pod_requests(template) is not None
            assert len([c.command_line for c in template.containers]) == len(template.containers)
        kind = SERVED.get(manifest.group_kind)
        if kind is not None:
            assert isinstance(live.pod_slots(kind, manifest.body, manifests), tuple)


@pytest.mark.parametrize("kind", [k for k in KINDS.values() if k.plural], ids=str)
def test_live_pods_are_read_whatever_they_say(kind: Data) -> None:
    statuses: tuple[Data, ...] = (None, [], "x", {"phase": 5, "containerStatuses": ["x", {}]})
    for other in OTHERS:
        for status in statuses:
            body = {"metadata": other, "spec": other, "status": status}
            assert live.read({k: v for k, v in body.items() if v is not GONE}, kind).phase


@pytest.mark.parametrize("target", [kind.name for kind in KINDS.values()])
def test_rules_and_operators_find_the_same_pod_templates(target: str) -> None:
    """Where the templates are is said once for each kind."""
    sources = [source for source in _sources() if source.target == target]
    assert sources
    for source in sources:
        manifests = source.manifests()
        _, manifest = operators.find(manifests)
        subject = subject_of(manifest, ENVIRONMENT, None, manifests)
        images = {container.image for t in subject.templates for container in t.trains}
        assert {pod.image for pod in source.workload().pods} <= images
        for template in subject.templates:
            assert template.partial or isinstance(lookup(manifest.body, template.pointer), dict)


def test_compose_has_two_notations_of_variables_and_labels_and_they_are_read_alike() -> None:
    mapping = {"environment": {"A": "1", "B": None}, "labels": {"team": "vision"}}
    listed = {"environment": ["A=1", "B"], "labels": ["team=vision"]}
    found = []
    for written in (mapping, listed):
        service = {"image": "registry.example.com/a:1", **written}
        compose = TARGETS["compose"].of
        body = {"kind": compose.kind, "spec": {"services": {"train": service}}}
        manifest = Manifest(body={"apiVersion": compose.api_version, **body})
        (template,) = subject_of(manifest, ENVIRONMENT).templates
        (pod,) = operators.workload([manifest]).pods
        found.append((template.labels, template.containers[0].env, pod.labels, pod.declared))
    assert found[0] == found[1]
    labels, env, _, declared = found[0]
    assert labels == {"team": "vision"}
    assert env == ({"name": "A", "value": "1"}, {"name": "B"})  # B comes from the shell
    assert [(one.name, one.source) for one in declared][1] == ("B", "variable B of the shell")


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "ksh", "zsh"])
def test_a_file_is_a_script_of_any_shell_in_its_first_line(shell: str) -> None:
    assert is_script("/etc/start", f"#!/usr/bin/env {shell}\ntorchrun train.py\n")
    assert not is_script("/etc/start", f"#!/usr/bin/{shell}ell\n")
