"""Roles that serve a training: whether it knows where they are."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.groupkind import CONFIGMAP
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import dig, text, words
from trainwright.pods.template import ROLE_LABEL, PodTemplate
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject


@warning("TW772", about=(ROLE_LABEL,))
def role_without_references(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        if not template.serves or not any(c.ports for c in template.trains):
            continue
        host = f"{text(subject.metadata.get('name'))}-{template.role}-"
        others = [other for other in subject.pod_templates if other is not template]
        if not any(host in word for other in others for word in _texts(other, subject)):
            message = f"no other pod has an address of {template.role}"
            yield Hit(template.pointer, message, Pointer("/port"))


def _texts(template: PodTemplate, subject: Subject) -> Iterator[str]:
    """Every text of a pod, and of the files that it mounts."""
    yield from words(template.body)
    for _, volume in template.volumes:
        name = text(dig(volume, "configMap", "name"))
        config = subject.around.named(CONFIGMAP, name, subject.manifest.namespace) if name else None
        if config is not None:
            yield from words(config.body)


RULES = defined_in(globals())
