"""What a merge does to the additional objects of an environment, those that users write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, TypeAlias

from trainwright.datatypes import same
from trainwright.datatypes.data import mappings
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, ValueChange
from trainwright.datatypes.groupkind import ROLE, ROLEBINDING
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.findings.credentials import redact
from trainwright.objects.departure import Departure, applying, deletion
from trainwright.objects.departure import end as end_of
from trainwright.objects.grants import grants
from trainwright.plan.model import ObjectChange
from trainwright.plan.object_effects import Surroundings, allowed, checkpoints, effects, later
from trainwright.plan.revision import Revision
from trainwright.render import own_object_checks
from trainwright.render.refused import of_own
from trainwright.runs.workspace import Workspace
from trainwright.specs.own_objects import OwnObject

Identity: TypeAlias = tuple[str, str, str, str]  # group, kind, namespace and name


def changes(
    before: Revision,
    after: Revision,
    environment: str,
    around: Surroundings | None = None,
    refused: Sequence[Finding] = (),
    told: Container[str] = (),
) -> Iterator[ObjectChange]:
    """Yield each object added, removed or edited between two revisions, sorted by identity, with
    what follows `around` it, unless it is `refused`. What a file with errors has is not known.

    An object is the same in whichever environment of a cluster it is. One that goes on in another
    is left out where it is gone, if the changes of that one are `told`.
    """
    unknown, applied = _unknown(after, environment), _applied(before, after, environment)
    old, new = _objects(before, environment), _objects(after, environment)
    both = sorted({*old, *new})
    several = Counter((kind, name) for _, kind, _, name in both)  # one in each of two namespaces
    for identity in both:
        was, now, other = old.get(identity), new.get(identity), ""
        if was and now and was.manifest.body == now.manifest.body:
            continue
        if was and not now and was.document.file in unknown:
            continue
        action: Literal["added", "changed", "moved", "removed"] = "changed"
        if not now:
            action, other = "removed", _keeper(after, environment, applied, identity)
            if other in told and identity not in _objects(before, other):
                continue
        elif not was:
            other = next(_others(before, environment, applied, identity), "")
            was = _objects(before, other).get(identity)
            shared = identity in _objects(after, other)
            alike = was is not None and was.manifest.body == now.manifest.body
            action = "added" if shared or not was else "moved" if alike else "changed"
        old_object, new_object = (one.manifest if one else None for one in (was, now))
        granted, given = (redact(grants(it)) if it else "" for it in (old_object, new_object))
        one = now or was
        assert one is not None
        until = "" if now or other else _until(one.manifest, applied, last=not new)
        stays = (other and not now) or old_object == new_object
        is_refused = [
            f"{it.message}, and the sync fails"
            for it in refused
            if (it.place.file, it.manifest) == (one.place.file, one.manifest.title)
        ]
        follows: Iterable[str] = is_refused
        if around is not None and not (stays or is_refused):
            follows = effects(old_object, new_object, around)
        if until and around is not None:
            follows = later(follows, one.manifest, around)
        goes = around is not None and not (now or until or stays)
        _, kind, namespace, name = identity
        title = f"{kind}/{namespace}/{name}" if several[kind, name] > 1 else one.manifest.title
        yield ObjectChange(
            environment=environment,
            object=redact(title),
            action=action,
            place=one.place,
            grants=given if now else granted,
            granted=granted if now and given != granted else "",
            before=_text(was) if was else "",
            after=_text(now) if now else "",
            until=until,
            effects=tuple(map(redact, follows)),
            checkpoints=redact(checkpoints(one.manifest, around)) if around and goes else "",
            other=other,
            refused=bool(is_refused),
            values=tuple(_values(was, now)) if was and now else (),
            gives=bool(_given(new_object) - _given(old_object)) and not is_refused,
        )


def deleted(before: Revision, after: Revision, environment: str) -> frozenset[Identity]:
    """Return the objects that leave git with a merge, and that a sync then deletes."""
    unknown, applied = _unknown(after, environment), _applied(before, after, environment)
    old, new = _objects(before, environment), _objects(after, environment)
    return frozenset(
        identity
        for identity, was in old.items()
        if not (identity in new or was.document.file in unknown)
        and not _keeper(after, environment, applied, identity)
        and not _until(was.manifest, applied, last=not new)
    )


def _unknown(after: Revision, environment: str) -> Set[str]:
    """Return the files with errors, of which it is not known what they have after the merge."""
    there = environment in after.survey.jobs
    broken = after.own_objects(environment).findings if there else ()
    return {finding.place.file for finding in broken}


def _applied(before: Revision, after: Revision, environment: str) -> Environment | None:
    return applying(before.environments.get(environment), after.environments.get(environment))


def _given(one: Manifest | None) -> frozenset[str]:
    """Return each thing that a role allows, or each subject to which a binding gives its role."""
    if one is None or one.group_kind not in (ROLE, ROLEBINDING):
        return frozenset()
    if one.group_kind == ROLE:
        return allowed(one)
    role, subjects = one.body.get("roleRef"), mappings(one.body.get("subjects"))
    return frozenset(f"{role} to {subject}" for subject in subjects)


def _values(was: OwnObject, now: OwnObject) -> Iterator[ValueChange]:
    """Yield the values that differ, each at its line."""
    for path, before, after in same.differences(was.manifest.body, now.manifest.body):
        yield ValueChange(path, before, after, now.document.place(path))


def identities(side: Workspace, environment: str) -> Set[Identity]:
    """Return what makes the objects of an environment the same as those of another."""
    return _objects(side, environment).keys()


def _others(
    side: Revision, environment: str, applied: Environment | None, identity: Identity
) -> Iterator[str]:
    """Yield the other environments of one cluster that have an object."""
    for name in sorted(side.survey.jobs.keys() - {environment}):
        if _may_share(side, name, applied) and identity in _objects(side, name):
            yield name


def _may_share(side: Revision, name: str, applied: Environment | None) -> bool:
    """Whether an environment may be in the cluster of another, as one that cannot be read may."""
    other = side.environments.get(name)
    if other is None or applied is None:
        return True
    return other.gitops.destination == applied.gitops.destination


def _keeper(
    after: Revision, environment: str, applied: Environment | None, identity: Identity
) -> str:
    """Return what has an object after the merge that an environment has no more: another one, or a
    job, as its claim; "" if nothing has it.
    """
    if other := next(_others(after, environment, applied, identity), ""):
        return other
    group, kind, namespace, name = identity
    recorded = "/".join(filter(None, (group, kind, name)))
    for there in sorted(after.survey.jobs):
        for job, run in after.folder(there).records.items():
            has = recorded in run.objects and run.environment.get("namespace", "") == namespace
            if has and _may_share(after, there, applied):
                return f"{there}/{job}"
    return ""


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


def _objects(side: Workspace, environment: str) -> Mapping[Identity, OwnObject]:
    if environment not in side.survey.jobs:
        return {}
    own_objects = side.own_objects(environment).objects
    return {own_object.manifest.identity: own_object for own_object in own_objects}
