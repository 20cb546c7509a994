"""Names, labels and annotations as the API server takes them.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, text
from trainwright.datatypes.groupkind import SERVICE, GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import KINDS
from trainwright.objects import forms
from trainwright.objects.forms import Form
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import upstream
from trainwright.rules.definitions import DEFINITION

_NAMED: Mapping[GroupKind, Form] = {
    GroupKind("", "Namespace"): forms.LABEL,
    # The CronJob adds eleven characters to the names of its Jobs.
    GroupKind("batch", "CronJob"): Form(forms.SUBDOMAIN.called, forms.SUBDOMAIN.pattern, 52),
}
_FREE = (
    *("rbac.authorization.k8s.io", "flowcontrol.apiserver.k8s.io"),
    *("apiregistration.k8s.io", "internal.apiserver.k8s.io"),
)
# Of these, names have a form of their own, or a rule of their own says it.
_OTHER = (
    GroupKind("certificates.k8s.io", "ClusterTrustBundle"),
    GroupKind("networking.k8s.io", "IPAddress"),
    *(kind.group_kind for kind in KINDS.values() if kind.own_name_rule),
)
_DIGIT_FIRST = upstream("kubernetes/service-names-begin-with-digits")


def _form(subject: Subject) -> Form:
    if subject.kind in _NAMED:
        return _NAMED[subject.kind]
    if subject.kind == SERVICE:
        relaxed = _DIGIT_FIRST.holds(subject.environment.kubernetes_version)
        return forms.LABEL if relaxed else forms.LETTER_FIRST
    return forms.SEGMENT if subject.kind.group in _FREE else forms.SUBDOMAIN


def _named(form: Form, value: Data, at: str, what: str, spec: Pointer) -> Iterator[Hit]:
    """Yield what is wrong with one name; the schema reports values that are no strings."""
    name = text(value)
    problem = form.problem(name) if name else ""
    if problem:
        yield Hit(at, f'{what} "{name}" {problem}', spec)


_NAME = Pointer("/name")


@error("TW516", spec=_NAME, per_pod=True, special=True)
def invalid_name(subject: Subject) -> Iterator[Hit]:
    metadata = subject.metadata
    if subject.kind not in _OTHER and subject.manifest.api_version:
        form = _form(subject)
        yield from _named(form, metadata.get("name"), "/metadata/name", "the name", _NAME)
        prefix = text(metadata.get("generateName")).removesuffix("-")
        if not metadata.get("name"):
            yield from _named(form, prefix, "/metadata/generateName", "the prefix", _NAME)
    space = metadata.get("namespace")
    yield from _named(forms.LABEL, space, "/metadata/namespace", "the namespace", _NAME)
    yield from _plural_and_group(subject)
    for template in subject.pod_templates:
        yield from _in_pod(template)


def _plural_and_group(subject: Subject) -> Iterator[Hit]:
    if subject.kind == DEFINITION:
        group, plural = subject.spec.get("group"), dig(subject.spec, "names", "plural")
        expected, name = f"{plural}.{group}", subject.metadata.get("name")
        if group and plural and name and name != expected:
            yield Hit("/metadata/name", f'the name "{name}" is not plural and group: {expected}')


_IN_POD: Mapping[str, Form] = {
    "serviceAccountName": forms.SUBDOMAIN,
    "priorityClassName": forms.SUBDOMAIN,
    "runtimeClassName": forms.SUBDOMAIN,
    "hostname": forms.LABEL,
    "subdomain": forms.LABEL,
}
_IN_SPEC = {
    "serviceAccountName": Pointer("/serviceAccount"),
    "priorityClassName": Pointer("/priorityClass"),
    "runtimeClassName": Pointer("/runtimeClass"),
}


def _in_pod(template: PodTemplate) -> Iterator[Hit]:
    """Yield a hit for each name in a pod that the API server refuses."""
    for field, form in _IN_POD.items() if not _IN_POD.keys().isdisjoint(template.spec) else ():
        at = f"{template.pointer}/spec/{field}"
        spec = _IN_SPEC.get(field, _NAME)
        yield from _named(form, template.spec.get(field), at, field, spec)
    for pointer, volume in template.volumes:
        name = text(volume.get("name"))
        if forms.LABEL.problem(name):
            spec = Pointer.of("volumes", name)
            yield from _named(forms.LABEL, name, f"{pointer}/name", "the volume", spec)
    for container in (*template.containers, *template.ephemeral):
        if container.name and forms.LABEL.problem(container.name):
            at = f"{container.pointer}/name"
            yield from _named(forms.LABEL, container.name, at, "the container", _NAME)
        for index, port in enumerate(container.ports):
            at = f"{container.pointer}/ports/{index}/name"
            yield from _named(forms.PORT, port.get("name"), at, "the port", _NAME)


_ANNOTATIONS = 256 * 1024  # bytes of all keys and values


@error("TW517", spec=Pointer("/labels"), per_pod=True, special=True)
def invalid_label(subject: Subject) -> Iterator[Hit]:
    yield from _described(subject.metadata, "/metadata")
    for template in subject.pod_templates:
        if template.pointer:  # the metadata of a Pod is its own
            yield from _described(template.metadata, f"{template.pointer}/metadata")
        yield from _labelled(template.spec, f"{template.pointer}/spec", "nodeSelector")


def _described(metadata: Mapping[str, Data], pointer: str) -> Iterator[Hit]:
    """Yield a hit for each label or annotation that the API server refuses."""
    yield from _labelled(metadata, pointer, "labels")
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return
    for key in annotations:
        yield from _keyed(str(key).lower(), str(key), pointer, "annotations")
    size = sum(len(f"{key}{text(value)}".encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS:
        message = f"the annotations have {size} bytes, {size - _ANNOTATIONS} over {_ANNOTATIONS}"
        yield Hit(f"{pointer}/annotations", message, Pointer("/annotations"))


def _labelled(body: Mapping[str, Data], pointer: str, field: str) -> Iterator[Hit]:
    labels = body.get(field)
    for key, value in labels.items() if isinstance(labels, dict) else ():
        yield from _keyed(str(key), str(key), pointer, field)
        problem = forms.VALUE.problem(text(value))
        if problem:
            at, spec = Pointer(pointer) / field / str(key), Pointer.of(field, str(key))
            yield Hit(at, f'the value "{value}" of {key} {problem}', spec)


def _keyed(read: str, key: str, pointer: str, field: str) -> Iterator[Hit]:
    problem = forms.key_problem(read)
    if problem:
        at, spec = Pointer(pointer) / field / key, Pointer.of(field, key)
        yield Hit(at, f'the key "{key}" in {field} {problem}', spec)


RULES = defined_in(globals())
