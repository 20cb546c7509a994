"""Checks of the additional objects of an environment, with each finding at its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, Location, Related
from trainwright.datatypes.groupkind import EXTERNALSECRET, SEALEDSECRET, SECRET, GroupKind
from trainwright.datatypes.listing import article
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import kubernetes_schemas, schema
from trainwright.documents.validation.list_maps import ListMaps
from trainwright.documents.validation.schema import Schema
from trainwright.findings import diagnostics as dx
from trainwright.kinds import TRAINING
from trainwright.kinds.subjects import subject_of
from trainwright.objects.bundle import Bundle
from trainwright.objects.kustomize import LOCAL_CONFIG, leaves_out
from trainwright.rules import deception, families
from trainwright.runs.record import Record
from trainwright.specs.own_objects import OwnObject, OwnObjects

_NAMESPACE, _NAME = Pointer("/metadata/namespace"), Pointer("/metadata/name")
# Cluster-scoped kinds, of Kubernetes itself and of extensions that training needs.
_OF_CLUSTERS = frozenset(
    {
        *("APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterRole"),
        *("ClusterRoleBinding", "ClusterTrustBundle", "CustomResourceDefinition", "DeviceClass"),
        *("DeviceTaintRule", "FlowSchema", "IPAddress", "IngressClass", "MutatingAdmissionPolicy"),
        *("MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node"),
        *("PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourceSlice"),
        *("RuntimeClass", "ServiceCIDR", "StorageClass", "StorageVersion"),
        *("StorageVersionMigration", "ValidatingAdmissionPolicy"),
        *("ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"),
        *("VolumeAttachment", "VolumeAttributesClass"),
        *("ClusterQueue", "ClusterSecretStore", "ClusterTrainingRuntime", "Cohort"),
        *("ResourceFlavor", "Topology", "WorkloadPriorityClass"),
    }
)
# By which engines apply further files, with rights of their own.
_OF_ENGINES = frozenset(
    {
        *(
            GroupKind("argoproj.io", kind)
            for kind in ("Application", "ApplicationSet", "AppProject")
        ),
        *(GroupKind("fluxcd.controlplane.io", kind) for kind in ("FluxInstance", "ResourceSet")),
        *(GroupKind("helm.cattle.io", kind) for kind in ("HelmChart", "HelmChartConfig")),
        GroupKind("helm.toolkit.fluxcd.io", "HelmRelease"),
        GroupKind("kustomize.toolkit.fluxcd.io", "Kustomization"),
    }
)
_FOR_TOOLS = ("kustomize.config.k8s.io", "trainwright.io")  # which no cluster ever sees


def findings(
    environment: Environment, own: OwnObjects, runs: Mapping[str, Record]
) -> Iterator[Finding]:
    """Yield everything that keeps objects from being applied, and the findings of rules."""
    own_findings = (*own.findings, *_of_objects(environment, own, runs))
    yield from own_findings
    secret = {item.document.file for item in own.objects if item.manifest.group_kind == SECRET}
    unseen = (line for line in own.unseen if line[0].file not in secret)  # it would be shown
    yield from deception.elsewhere(unseen, own_findings, environment.name)


def _of_objects(
    environment: Environment, own: OwnObjects, runs: Mapping[str, Record]
) -> Iterator[Finding]:
    together = Bundle(item.manifest for item in own.objects)
    rendered = _rendered(runs)
    seen: dict[tuple[str, str, str, str], OwnObject] = {}
    for item in own.objects:
        title = item.manifest.title
        if refused := _refused(item.manifest):
            message, remedy = refused
            refusal = dx.OWN_OBJECT.at(_at(item, Pointer("/kind")), message, remedy=remedy)
            yield replace(refusal, subject=environment.name, manifest=title)
            continue
        about = (
            *_out_of_place(item, environment),
            *_of_schema(item, environment.kubernetes_version),
            *_of_rules(item, environment, together),
            *_twice(item, seen, rendered),
        )
        for finding in about:
            yield replace(finding, subject=environment.name, manifest=title)


def _at(item: OwnObject, pointer: Pointer) -> Location:
    return item.document.place(pointer)


# --- what belongs there --------------------------------------------------------------------------


def _out_of_place(item: OwnObject, environment: Environment) -> Iterator[Finding]:
    manifest = item.manifest
    if not manifest.name:
        message = "metadata.name must say what the object is called"
        remedy = "Give it a name: what is generated cannot be found again."
        yield dx.OWN_OBJECT.at(_at(item, Pointer("/metadata")), message, remedy=remedy)
    if manifest.namespace != environment.namespace:
        current = f'"{manifest.namespace}"' if manifest.namespace else "not set"
        message = f"metadata.namespace is {current}, the environment's is {environment.namespace}"
        remedy = f"Write namespace: {environment.namespace}."
        at = _NAMESPACE if manifest.namespace else Pointer("/metadata")
        yield dx.OWN_OBJECT.at(_at(item, at), message, remedy=remedy)
    if leaves_out(manifest.annotations):
        message = f"kustomize leaves out what has the annotation {LOCAL_CONFIG}, without a word"
        remedy = "Remove the annotation, or take the object out of objects/."
        at = Pointer.of("metadata", "annotations", LOCAL_CONFIG)
        yield dx.OWN_OBJECT.at(_at(item, at), message, remedy=remedy)


def _refused(manifest: Manifest) -> tuple[str, str] | None:
    """Return why an object is not allowed and what to do instead, or None if it is."""
    kind = manifest.group_kind
    if kind == SECRET:
        return (
            "a Secret in git can be read by everybody who can read the repository",
            f"Write an {EXTERNALSECRET.kind} or a {SEALEDSECRET.kind}, or create it in the "
            "cluster, and name it under secrets in environment.yaml.",
        )
    if kind in TRAINING:
        return (
            f"{article(kind)} is a run, which begins and ends with a job spec",
            "Make a job spec of it with `trainwright import`; what that "
            "refuses is applied from another place.",
        )
    if kind.group in _FOR_TOOLS or kind == GroupKind("", "List"):
        return f"no cluster takes {article(kind)}", "Write each object as a document of its own."
    if manifest.is_list:
        return (
            f"an engine takes {article(kind)} for the list of its items",
            "Write each object as a document of its own.",
        )
    if kind in _OF_ENGINES or kind.kind in _OF_CLUSTERS:
        reach = "belongs to the whole cluster, and not to one environment"
        if kind in _OF_ENGINES:
            reach = "has an engine apply more, into any namespace"
        return f"{article(kind)} {reach}", "Apply it with what else makes the cluster."
    return None


# --- schema and rules ----------------------------------------------------------------------------


def _of_schema(item: OwnObject, version: str) -> Iterator[Finding]:
    manifest = item.manifest
    api_version, kind = manifest.api_version, manifest.kind
    definition = _schema(api_version, kind, version)
    if definition is None:
        if _serves(api_version.rpartition("/")[0], version):
            when = kubernetes_schemas.when_kind(api_version, kind, version)
            message = f"Kubernetes {version} has no {kind} of {api_version}"
            remedy = "Write an apiVersion that it serves."
            text = f"{message}: {when}" if when else message
            yield dx.RENDERED_SCHEMA.at(_at(item, Pointer("/apiVersion")), text, remedy=remedy)
        return
    repeated = ListMaps(definition.root, version).repeated(manifest.body)
    for violation in (*definition.explain(manifest.body), *repeated):
        dated = schema.dated(violation, definition.root, version)
        find = item.document.key_place if violation.key else item.document.place
        place = find(violation.pointer)
        finding = dx.RENDERED_SCHEMA.at(place, dated.message, remedy=dated.remedy)
        yield replace(finding, pointer=violation.pointer)


@cache
def _schema(api_version: str, kind: str, version: str) -> Schema | None:
    definition = kubernetes_schemas.kinds(version).get((api_version, kind))
    if definition is None:
        return None
    root = {"$ref": f"{kubernetes_schemas.URI}#/$defs/{definition}"}
    return schema.with_kubernetes(root, version)


def _serves(group: str, version: str) -> bool:
    served = kubernetes_schemas.kinds(version)
    return any(api_version.rpartition("/")[0] == group for api_version, _ in served)


def _of_rules(item: OwnObject, environment: Environment, together: Bundle) -> Iterator[Finding]:
    for rule, hit in families.run(subject_of(item.manifest, environment, None, together)):
        yield rule.at(
            _at(item, Pointer(hit.pointer)),
            hit.message,
            remedy=rule.by_hand,
            effect=rule.effect_of(hit, item.manifest.group_kind),
            note=hit.note,
            pointer=hit.pointer,
        )


# --- what is there already -----------------------------------------------------------------------


def _rendered(runs: Mapping[str, Record]) -> Mapping[tuple[str, str], str]:
    """Return the jobs that render an object, by its namespace and "group/Kind/name"."""
    return {
        (run.environment.get("namespace", ""), name): job
        for job, run in runs.items()
        for name in run.objects
    }


def _twice(
    item: OwnObject,
    seen: dict[tuple[str, str, str, str], OwnObject],
    rendered: Mapping[tuple[str, str], str],
) -> Iterator[Finding]:
    group, kind, namespace, name = item.manifest.identity
    job = rendered.get((namespace, "/".join(filter(None, (group, kind, name)))))
    if job is not None:
        message = f"{item.manifest.title} is rendered by {job}, too"
        yield dx.OBJECT_COLLISION.at(item.place, message, remedy="Give it another name.")
    first = seen.setdefault(item.manifest.identity, item)
    if first is not item and item.manifest.metadata.get("name"):
        message = f"{item.manifest.title} is there twice"
        related = (Related("first", item.manifest.title, first.place),)
        remedy = "Keep one of them."
        yield dx.OBJECT_COLLISION.at(item.place, message, remedy=remedy, related=related)
