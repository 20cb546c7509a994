"""Pods that the API server refuses, although the schemas of Kubernetes accept them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from trainwright.datatypes.data import mapping, sequence
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation import kubernetes_schemas
from trainwright.kinds import is_for_clusters
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules import api_server
from trainwright.rules.api_server import Cluster
from trainwright.rules.api_server.pods import annotation_problems
from trainwright.specs import authored

_NAME = Pointer("/name")  # the job's, for what none of its fields sets


@error("TW739", spec=Pointer("/name"), per_pod=True, special=True)
def invalid_pod_field(subject: Subject) -> Iterator[Hit]:
    cluster = _cluster(subject)
    for template in subject.pod_templates if is_for_clusters(subject.kind) else ():
        for at, message in annotation_problems(template):
            yield Hit(f"{template.pointer}{at}", message, Pointer("/podAnnotations" + at[21:]))
        if template.body.get("spec") is None and not template.partial:
            yield Hit(template.pointer, "spec is missing")
        for at, message in api_server.problems(_POD, template.spec, cluster):
            spec = _spec_of_pod(at, template)
            yield Hit(f"{template.pointer}/spec{at}", message, spec)
        for container in (*template.containers, *template.ephemeral):
            yield from _in_container(container, template, cluster)


_POD, _CONTAINER = api_server.named("PodSpec"), api_server.named("Container")


def _cluster(subject: Subject) -> Cluster:
    """Return an object's cluster; it is `worded` if the kind's schema lists allowed values."""
    manifest = subject.manifest
    return _for(subject.environment.kubernetes_version, manifest.api_version, manifest.kind)


@lru_cache(maxsize=256)
def _for(version: str, api_version: str, kind: str) -> Cluster:
    return Cluster(version, worded=(api_version, kind) in kubernetes_schemas.kinds(version))


def _spec_of_pod(at: Pointer, template: PodTemplate) -> Pointer:
    field, *rest = at.parts or ("",)
    if not rest or field not in ("containers", "initContainers"):
        return authored.of_pod(at, template.spec) or _NAME
    if field != "containers" or rest[0] != "0" or template.main is None:
        return Pointer()
    return authored.of_training(Pointer.of(*rest[1:]), template.main.body) or _NAME


def _in_container(container: Container, template: PodTemplate, cluster: Cluster) -> Iterator[Hit]:
    for at, message in api_server.problems(_CONTAINER, container.body, cluster):
        main = container is template.main
        spec = (authored.of_training(at, container.body) or _NAME) if main else Pointer()
        yield Hit(f"{container.pointer}{at}", message, spec)


@error("TW519", spec=Pointer("/name"))
def invalid_object_field(subject: Subject) -> Iterator[Hit]:
    cluster = _cluster(subject)
    key = (subject.manifest.api_version, subject.manifest.kind)
    definition = kubernetes_schemas.kinds(cluster.version).get(key, "")
    for at, message in api_server.problems(definition, subject.body, cluster) if definition else ():
        yield Hit(at, message)
    if "replicatedJobs" not in subject.words:
        return
    for above in (Pointer("/spec"), Pointer("/spec/template/spec")):  # a JobSet, a runtime
        jobs = above / "replicatedJobs"
        for index in range(len(sequence(lookup(subject.body, jobs)))):
            pointer = Pointer(jobs / index / "template" / "spec")
            body = mapping(lookup(subject.body, pointer))
            for at, message in api_server.problems(_JOB_SPEC, body, cluster):
                yield Hit(f"{pointer}{at}", message)


_JOB_SPEC = "io.k8s.api.batch.v1.JobSpec"


RULES = defined_in(globals())
