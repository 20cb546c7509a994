"""What GitOps engines do to run-to-completion objects: re-create, train again, show out of sync."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import (
    CONFIGMAP,
    LOCALQUEUE,
    PERSISTENTVOLUMECLAIM,
    RUNTIMES,
    SECRET,
    SERVICEACCOUNT,
    GroupKind,
)
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import SERVED, TRAINING
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.sync_options import OPTIONS, sync_options
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

_WAVE = "argocd.argoproj.io/sync-wave"

_EXPIRING = tuple(kind for kind in SERVED.values() if kind.expires)


@error("TW501")
def generated_name(subject: Subject) -> Iterator[Hit]:
    # Where both are there the name counts.
    if not subject.metadata.get("name"):
        form = "generated" if subject.metadata.get("generateName") else "nameless"
        yield Hit("/metadata", "the object has no fixed name", form=form)


@warning(
    "TW502", about=("ttlSecondsAfterFinished",), kinds=tuple(kind.group_kind for kind in _EXPIRING)
)
def ttl_set(subject: Subject) -> Iterator[Hit]:
    for pointer in dict.fromkeys(kind.expires for kind in _EXPIRING):
        ttl = dig(subject.body, *Pointer(pointer).parts)
        if ttl is not None:
            yield Hit(pointer, f"the object deletes itself {ttl} seconds after it is finished")


_FORCE = "kustomize.toolkit.fluxcd.io/force"


@warning("TW503", kinds=TRAINING, about=(OPTIONS, _FORCE), spec=Pointer("/annotations"))
def forced_sync(subject: Subject) -> Iterator[Hit]:
    options = sync_options(subject.annotations)
    given_options = [option for option in ("Force=true", "Replace=true") if option in options]
    form = "always" if len(given_options) == 2 else "changed"
    for option in given_options:
        yield Hit(Pointer.of("metadata", "annotations", OPTIONS), f"{option} is set", form=form)
    for field, given in (("annotations", subject.annotations), ("labels", subject.labels)):
        if given.get(_FORCE) == "enabled":
            yield Hit(Pointer.of("metadata", field, _FORCE), f"{_FORCE} is enabled", form="changed")


# By engine: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-waves/,
# https://helm.sh/docs/topics/charts_hooks/
HOOKS = {"argocd.argoproj.io/hook": "Argo CD", "helm.sh/hook": "Helm"}


@error("TW529", kinds=TRAINING, about=tuple(HOOKS), spec=Pointer("/annotations"))
def training_is_hook(subject: Subject) -> Iterator[Hit]:
    if subject.kind.kind == "Job" and not _trains(subject):
        return  # a migration of a database, say, for which hooks are made
    for key, engine in HOOKS.items():
        if subject.annotations.get(key):
            yield Hit(Pointer.of("metadata", "annotations", key), f"it is a hook of {engine}")


def _trains(subject: Subject) -> bool:
    """Whether a Job trains: unlike other Jobs, it has ranks or accelerators."""
    indexed = subject.spec.get("completionMode") == "Indexed"
    return indexed or any(template.accelerators for template in subject.templates)


@warning("TW505", about=(QUEUE_LABEL,), spec=Pointer("/state"))
def suspend_set_under_queue(subject: Subject) -> Iterator[Hit]:
    if QUEUE_LABEL not in mapping(subject.metadata.get("labels")):
        return
    for pointer, holder in (
        ("/spec/runPolicy/suspend", mapping(subject.spec.get("runPolicy"))),
        ("/spec/suspend", subject.spec),
    ):
        if "suspend" in holder:
            message = f"suspend: {str(holder['suspend']).lower()} with a queue label"
            yield Hit(pointer, message, form="starts" if holder["suspend"] is False else "stops")


@warning("TW506", per_pod=True)
def defaulted_list_field(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for index, port in enumerate(sequence(container.body.get("ports"))):
            if "protocol" not in mapping(port):
                yield Hit(f"{container.pointer}/ports/{index}", "the port has no protocol")
    if subject.environment.gitops.engine == "argocd":
        yield from _unfilled(subject)


def _unfilled(subject: Subject) -> Iterator[Hit]:
    """Yield replicated jobs that leave defaulted fields unset, which Flux never compares."""
    above = "/spec/template/spec" if subject.kind in RUNTIMES else "/spec"
    job_set = mapping(dig(subject.spec, "template", "spec")) if above != "/spec" else subject.spec
    for index, job in enumerate(mappings(job_set.get("replicatedJobs"))):
        missing = [field for field in ("replicas", "groupName") if field not in job]
        if missing:
            message = f"{job.get('name')!r} has no {' and no '.join(missing)}"
            yield Hit(f"{above}/replicatedJobs/{index}", message)


def _wave(manifest: Manifest) -> int:
    annotations = manifest.annotations
    wave = text(annotations.get(_WAVE))
    return int(wave) if wave.removeprefix("-").isdigit() else 0


def referred_objects(subject: Subject) -> Iterator[tuple[GroupKind, str, str]]:
    """Yield kind and name of each object that has to exist first, and where this one names it."""
    refers = SERVED[subject.kind].refers
    for needed in refers(subject.manifest) if refers else ():
        yield needed.kind, needed.name, needed.pointer
    yield (
        LOCALQUEUE,
        text(subject.labels.get(QUEUE_LABEL)),
        Pointer.of("metadata", "labels", QUEUE_LABEL),
    )
    for template in subject.templates:
        pointer = f"{template.pointer}/spec"
        yield SERVICEACCOUNT, text(template.spec.get("serviceAccountName")), pointer
        for where, volume in template.volumes:
            for source, (kind, key) in _VOLUMES.items():
                if source in volume:
                    yield kind, text(dig(volume, source, key)), where
        for container in template.containers:
            for entry in container.env:
                for source, kind in _VALUES.items() if "valueFrom" in entry else ():
                    yield kind, text(dig(entry, "valueFrom", source, "name")), container.pointer


_VOLUMES = {
    "persistentVolumeClaim": (PERSISTENTVOLUMECLAIM, "claimName"),
    "configMap": (CONFIGMAP, "name"),
    "secret": (SECRET, "secretName"),
}
_VALUES = {"secretKeyRef": SECRET, "configMapKeyRef": CONFIGMAP}
# Even inside a wave, Argo CD sorts built-in kinds before custom resources, and those by the name of
# their kind. A claim that waits for its first pod would block a wave of its own.
_AFTER_ITSELF = (LOCALQUEUE, *RUNTIMES)
_NEEDED = frozenset((SERVICEACCOUNT, SECRET, CONFIGMAP, PERSISTENTVOLUMECLAIM, *_AFTER_ITSELF))


@warning("TW507", kinds=TRAINING)
def needed_object_applied_late(subject: Subject) -> Iterator[Hit]:
    if subject.environment.gitops.engine == "flux" or _NEEDED.isdisjoint(subject.around.by_kind):
        return  # which Kustomization of Flux applies what is not in the objects
    own = _wave(subject.manifest)
    reported = set()
    for kind, name, pointer in referred_objects(subject):
        needed = subject.around.named(kind, name, subject.manifest.namespace) if name else None
        if needed is None or (kind, name) in reported:
            continue
        reported.add((kind, name))
        wave = _wave(needed)
        if not _ordered(subject, needed):
            continue
        if wave > own or (wave == own and kind in _AFTER_ITSELF):
            message = f"{kind}/{name} is in wave {wave}, the job that needs it in {own}"
            yield Hit(pointer, message, form="refused" if kind in RUNTIMES else "waits")


def _ordered(subject: Subject, needed: Manifest) -> bool:
    """Whether sync waves order two objects: one has a wave, or the environment has an engine."""
    written = _WAVE in subject.annotations or _WAVE in needed.annotations
    return written or subject.environment.gitops.engine != "none"


@warning("TW512")
def duplicate_object(subject: Subject) -> Iterator[Hit]:
    if len(subject.around) < 2:
        return
    same = subject.around.times[subject.manifest.identity]
    if same > 1 and subject.manifest.name:
        yield Hit("/metadata/name", f"{same} documents are {subject.kind}/{subject.manifest.name}")


RULES = defined_in(globals())
