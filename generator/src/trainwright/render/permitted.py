"""What an environment refuses of any run that begins, whichever commit of a branch rendered it.

One commit may allow what the next one forbids again, and a run rendered in between would stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Severity
from trainwright.datatypes.job import Job
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import lookup
from trainwright.kinds import SERVED
from trainwright.kinds.adopted.pod_templates import of_any_kind
from trainwright.kinds.subjects import subject_of
from trainwright.render import objects
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.subject import Hit
from trainwright.rules import deception, families, gitops, images, secrets, security
from trainwright.rules.policy import applying, waivable
from trainwright.runs.decision import Sources
from trainwright.runs.record import Record
from trainwright.specs import allowed

# The rules of what must not be in git in any file, and of what an environment accepts in no object.
_OF_ANY_OBJECT = frozenset(
    {
        secrets.CREDENTIAL,
        deception.deceptive_text.id,
        security.pod_security_violation.id,
        images.missing_digest.id,
        images.registry_not_allowed.id,
    }
)


# An object that deletes itself is harmless until an engine makes it again.
_OF_ADOPTED = _OF_ANY_OBJECT | {gitops.ttl_set.id}


def of_adopted(
    manifest: Manifest, environment: Environment, job: Job
) -> Iterator[tuple[Rule, Hit]]:
    """Yield the hits of the rules that hold for an object that an engine is to apply as it is."""
    subject = subject_of(manifest, environment, job)
    if manifest.group_kind not in SERVED:
        subject = replace(subject, finder=of_any_kind)
    return ((rule, hit) for rule, hit in families.run(subject) if rule.id in _OF_ADOPTED)


def refusal(record: Record, texts: Mapping[str, str], sources: Sources) -> str:
    """Return why the environment as it is now takes no such run, or "" if it does."""
    return next(_refusals(record, texts, sources), "")


def _refusals(record: Record, texts: Mapping[str, str], sources: Sources) -> Iterator[str]:
    """Yield why the environment as it is now takes no such run, as the end of a sentence."""
    environment = sources.environment
    namespace = record.environment.get("namespace")
    if namespace != environment.namespace:
        ours = environment.namespace
        yield f"is for the namespace {namespace}, that of {environment.name} is {ours}"
    for name, at in allowed.uses(record.spec):
        used_now = lookup(sources.spec.data, at) == lookup(record.spec, at)
        if not used_now and name not in environment.allow:
            yield f"has {at.dotted}, and {name} is not allowed in {environment.name}"
    weighed = _weighed(sources)
    for manifest in objects.manifests(texts, record.target):
        for rule, hit in of_adopted(manifest, environment, sources.job):
            if rule.id in _OF_ANY_OBJECT and rule.id not in weighed:
                yield f"breaks {rule.id} in {environment.name}: {hit.message}"


def _weighed(sources: Sources) -> frozenset[str]:
    """Return the rules that are waived, or no errors here."""
    environment = sources.environment
    own = (waiver for waiver in sources.job.waivers if not environment.requires(waiver.rule))
    shared = applying(environment.waivers, sources.job.name)
    waived = {waiver.rule for waiver in (*own, *shared)}
    lowered = {
        rule
        for rule, weight in environment.severities.items()
        if weight.severity is not Severity.ERROR
    }
    return frozenset(waived | lowered) & waivable() if waived or lowered else frozenset()
