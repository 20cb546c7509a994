"""What a merge does to the additional objects of an environment, those that users write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from trainwright.datatypes.finding import Finding
from trainwright.documents import yamlio
from trainwright.findings.credentials import redact
from trainwright.objects.grants import grants
from trainwright.plan.model import ObjectChange
from trainwright.plan.revision import Revision
from trainwright.render import own_object_checks
from trainwright.specs.own_objects import OwnObject


def changes(before: Revision, after: Revision, environment: str) -> Iterator[ObjectChange]:
    """Yield each object added, removed or edited between two revisions, sorted by identity."""
    old, new = _objects(before, environment), _objects(after, environment)
    for identity in sorted({*old, *new}):
        was, now = old.get(identity), new.get(identity)
        if now is None and was is not None:
            yield replace(_change(environment, was, "removed"), before=_text(was))
        elif was is None and now is not None:
            yield replace(_change(environment, now, "added"), after=_text(now))
        elif was and now and was.manifest.body != now.manifest.body:
            change, granted = _change(environment, now, "changed"), redact(grants(was.manifest))
            change = replace(change, before=_text(was), after=_text(now))
            yield replace(change, granted=granted) if granted != change.grants else change


def _change(
    environment: str, one: OwnObject, action: Literal["added", "changed", "removed"]
) -> ObjectChange:
    title, given = redact(one.manifest.title), redact(grants(one.manifest))
    return ObjectChange(environment, title, action, one.place, given)


def _text(one: OwnObject) -> str:
    return yamlio.dump(dict(one.manifest.body))


def findings(after: Revision, environment: str) -> tuple[Finding, ...]:
    """Return the findings about the objects as they will be after the merge."""
    place = after.environments.get(environment)
    if place is None:
        return ()
    runs = after.folder(environment).records
    return tuple(own_object_checks.findings(place, after.own_objects(environment), runs))


def _objects(side: Revision, environment: str) -> Mapping[tuple[str, str, str, str], OwnObject]:
    if environment not in side.survey.jobs:
        return {}
    own_objects = side.own_objects(environment).objects
    return {own_object.manifest.identity: own_object for own_object in own_objects}
