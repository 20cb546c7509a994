"""The subjects of rules: objects to be checked, with the pod templates that their kinds find."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import OWNERS
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.core_templates import core_templates
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.subject import Subject


def subject_of(
    manifest: Manifest,
    environment: Environment,
    job: Job | None = None,
    siblings: Sequence[Manifest] = (),
) -> Subject:
    """Return an object of any kind as a subject; `siblings` are those that are read with it."""
    return Subject(manifest, environment, job, siblings, finder=_templates)


def _templates(manifest: Manifest, around: Bundle) -> Iterable[PodTemplate]:
    """Return all pod templates of an object of any kind; `around` are the objects beside it."""
    is_owner = manifest.group_kind in OWNERS
    return pod_templates(manifest, around) if is_owner else core_templates(manifest)


def pod_templates(manifest: Manifest, around: Bundle) -> tuple[PodTemplate, ...]:
    """Return all pod templates of an object of a training kind; none for any other kind."""
    kind = OWNERS.get(manifest.group_kind)
    return tuple(kind.templates[manifest.group_kind](manifest, around)) if kind else ()
