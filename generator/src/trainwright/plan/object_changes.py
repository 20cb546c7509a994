"""What a merge does to the additional objects of an environment, those that users write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainwright.datatypes import same
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, ValueChange
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.findings.credentials import redact
from trainwright.objects.departure import Departure, deletion
from trainwright.objects.departure import end as end_of
from trainwright.objects.grants import grants
from trainwright.plan.model import ObjectChange
from trainwright.plan.object_effects import Surroundings, effects
from trainwright.plan.revision import Revision
from trainwright.render import own_object_checks
from trainwright.render.refused import of_own
from trainwright.specs.own_objects import OwnObject


def changes(
    before: Revision,
    after: Revision,
    environment: str,
    around: Surroundings | None = None,
    refused: Sequence[Finding] = (),
) -> Iterator[ObjectChange]:
    """Yield each object added, removed or edited between two revisions, sorted by identity, with
    what follows `around` it, unless it is `refused`. What a file with errors has is not known.
    """
    there = environment in after.survey.jobs
    broken = after.own_objects(environment).findings if there else ()
    unknown = {finding.place.file for finding in broken}
    old, new = _objects(before, environment), _objects(after, environment)
    applied = after.environments.get(environment) or before.environments.get(environment)
    both = sorted({*old, *new})
    several = Counter((kind, name) for _, kind, _, name in both)  # one in each of two namespaces
    for identity in both:
        was, now = old.get(identity), new.get(identity)
        if was and now and was.manifest.body == now.manifest.body:
            continue
        if was and not now and was.document.file in unknown:
            continue
        old_object, new_object = (one.manifest if one else None for one in (was, now))
        granted, given = (redact(grants(it)) if it else "" for it in (old_object, new_object))
        one = now or was
        assert one is not None
        until = "" if now else _until(one.manifest, applied, last=not new)
        is_refused = [
            f"{it.message}, and the sync fails"
            for it in refused
            if (it.place.file, it.manifest) == (one.place.file, one.manifest.title)
        ]
        follows: Iterable[str] = is_refused
        if around is not None and not (until or is_refused):
            follows = effects(old_object, new_object, around)
        _, kind, namespace, name = identity
        title = f"{kind}/{namespace}/{name}" if several[kind, name] > 1 else one.manifest.title
        yield ObjectChange(
            environment=environment,
            object=redact(title),
            action="removed" if now is None else "changed" if was else "added",
            place=one.place,
            grants=given if now else granted,
            granted=granted if now and given != granted else "",
            before=_text(was) if was else "",
            after=_text(now) if now else "",
            until=until,
            effects=tuple(map(redact, follows)),
            refused=bool(is_refused),
            values=tuple(_values(was, now)) if was and now else (),
        )


def _values(was: OwnObject, now: OwnObject) -> Iterator[ValueChange]:
    """Yield the values that differ, each at its line."""
    for path, before, after in same.differences(was.manifest.body, now.manifest.body):
        yield ValueChange(path, before, after, now.document.place(path))


def _until(one: Manifest, environment: Environment | None, *, last: bool) -> str:
    """Until when an object stays in the cluster that leaves git; empty if a sync deletes it.

    The `last` one takes the folder with it, and without that an engine deletes nothing, unless it
    applies runs along with the objects.
    """
    alone = environment is not None and environment.gitops.applications == "job"
    end = end_of(one, environment)
    if end.how is Departure.CONFIRMED or not (end.is_kept or (last and alone)):
        return redact(end.until)
    return f"`{redact(deletion(one.kind, one.namespace, one.name, None))}`"


def _text(one: OwnObject) -> str:
    return yamlio.dump(dict(one.manifest.body))


def findings(before: Revision, after: Revision, environment: str) -> tuple[Finding, ...]:
    """Return the findings about the objects as they will be after the merge."""
    place = after.environments.get(environment)
    if place is None:
        return ()
    runs = after.folder(environment).records
    own = own_object_checks.findings(place, after.own_objects(environment), runs)
    return (*own, *of_own(before, after, place))


def _objects(side: Revision, environment: str) -> Mapping[tuple[str, str, str, str], OwnObject]:
    if environment not in side.survey.jobs:
        return {}
    own_objects = side.own_objects(environment).objects
    return {own_object.manifest.identity: own_object for own_object in own_objects}
