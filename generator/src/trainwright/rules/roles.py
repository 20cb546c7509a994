"""Roles that serve a training: whether it knows where they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.data import dig, text, words
from trainwright.datatypes.groupkind import CONFIGMAP
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods.template import ROLE_LABEL, PodTemplate
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject


@warning("TW772", about=(ROLE_LABEL,))
def role_without_references(subject: Subject) -> Iterator[Hit]:
    texts = [(_served(t), "\n".join(_texts(t, subject))) for t in subject.pod_templates]
    for role, templates in _listening(subject).items():
        # As JobSet calls its pods, by the number of the Job and that of the pod.
        pods = re.escape(f"{subject.manifest.name}-{role}-") + r"\d+-\d+"
        hosts = "|".join(re.escape(t.host) if t.host else pods for t in templates)
        others = "\n".join(text for other, text in texts if other != role)
        if not re.search(rf"(?<![\w-])(?:{hosts})(?![\w-])", others):
            message = f"no other pod has an address of {role}"
            yield Hit(templates[0].pointer, message, Pointer("/port"))


def _served(template: PodTemplate) -> str:
    """Return the role of pods, or "" for those that train, even if they are named like a role."""
    return template.role if template.serves else ""


def _listening(subject: Subject) -> dict[str, list[PodTemplate]]:
    """Return the pods of each role with a port; on one machine, each of them is a service."""
    by_role: dict[str, list[PodTemplate]] = {}
    for template in subject.pod_templates:
        if template.serves and any(c.ports for c in template.trains):
            by_role.setdefault(template.role, []).append(template)
    return by_role


def _texts(template: PodTemplate, subject: Subject) -> Iterator[str]:
    """Every text of a pod, and of the files that it mounts."""
    yield from words(template.body)
    for _, volume in template.volumes:
        name = text(dig(volume, "configMap", "name"))
        config = subject.around.named(CONFIGMAP, name, subject.manifest.namespace) if name else None
        if config is not None:
            yield from words(config.body)


RULES = defined_in(globals())
