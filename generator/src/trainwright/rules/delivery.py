"""GitOps objects that apply training, and have to let it run: Applications, Kustomizations and
HelmReleases.

These rules only concern such an object if it is known to apply training: if training objects are
beside it, or if it names what Trainwright renders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import (
    APPLICATION,
    APPLICATIONSET,
    CONFIGMAP,
    HELMRELEASE,
    KUSTOMIZATION,
    GroupKind,
)
from trainwright.datatypes.listing import article
from trainwright.kinds import SERVED, TRAINING
from trainwright.kinds.kind import Kind
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject

_CHART = "training-job"
_COMPARE = "argocd.argoproj.io/compare-options"
# Kinds for whose end Argo CD and Flux wait by themselves; of the others they know no health.
_AWAITED = tuple(kind for kind in SERVED.values() if kind.awaited)
_SILENT = {k.group_kind: f"{k.group}_{k.kind}" for k in SERVED.values() if not k.awaited}


def _present(subject: Subject) -> list[GroupKind]:
    return [kind for kind in TRAINING if kind in subject.around.by_kind]


def _rendered(path: Data) -> bool:
    parts = text(path).strip("./").split("/")
    return "rendered" in parts and "environments" in parts


def _holds_training(subject: Subject, *sources: Mapping[str, Data]) -> bool:
    """Whether the sources of an application are known to hold training objects."""
    return bool(_present(subject)) or any(
        _rendered(source.get("path")) or text(source.get("chart")) == _CHART for source in sources
    )


def _application(subject: Subject) -> tuple[str, Mapping[str, Data]]:
    """An Application's specification, or that of an ApplicationSet's template, and where it is."""
    if subject.kind == APPLICATIONSET:
        return "/spec/template/spec", mapping(dig(subject.spec, "template", "spec"))
    return "/spec", subject.spec


def _sources(application: Mapping[str, Data]) -> list[Mapping[str, Data]]:
    return [mapping(application.get("source")), *mappings(application.get("sources"))]


@warning("TW508", kinds=(APPLICATION, APPLICATIONSET))
def client_side_diff(subject: Subject) -> Iterator[Hit]:
    pointer, spec = _application(subject)
    if not _holds_training(subject, *_sources(spec)):
        return
    metadata = mapping(dig(subject.spec, "template", "metadata"))
    holders = (subject.annotations, mapping(metadata.get("annotations")))
    if any("ServerSideDiff=true" in text(h.get(_COMPARE)) for h in holders):
        return
    ignored = sequence(spec.get("ignoreDifferences"))
    options = sequence(dig(spec, "syncPolicy", "syncOptions"))
    heals = dig(spec, "syncPolicy", "automated", "selfHeal") is True
    if not ignored:
        message = "fields that the cluster fills in count as differences"
        yield Hit(pointer, message, form="differences")
    elif heals and "RespectIgnoreDifferences=true" not in options:
        message = "ignoreDifferences hide what self-heal still overwrites"
        yield Hit(f"{pointer}/ignoreDifferences", message, form="overwritten")


@warning("TW509", kinds=(HELMRELEASE,))
def release_waits_for_training(subject: Subject) -> Iterator[Hit]:
    chart = mapping(dig(subject.spec, "chart", "spec"))
    if not _holds_training(subject, chart):
        return
    for action in ("install", "upgrade"):
        own = mapping(subject.spec.get(action))
        retries = dig(own, "remediation", "retries")
        waits = own.get("disableWait") is not True and own.get("disableWaitForJobs") is not True
        keeps = dig(own, "strategy", "name") == "RetryOnFailure"
        if retries not in (None, 0) and waits and not keeps:
            limit = own.get("timeout", subject.spec.get("timeout", "5m (the default)"))
            undone = "uninstalled" if action == "install" else "rolled back"
            message = f"a job that is not done after {limit} is {undone}"
            yield Hit(f"/spec/{action}", message, form=action)


def _checked(check: Mapping[str, Data]) -> GroupKind:
    """The kind that a health check of Flux is about."""
    return GroupKind.of(text(check.get("apiVersion")), text(check.get("kind")))


@warning("TW510", kinds=(KUSTOMIZATION,))
def kustomization_waits_for_jobs(subject: Subject) -> Iterator[Hit]:
    own = [_checked(check) for check in mappings(subject.spec.get("healthCheckExprs"))]
    for kind in _AWAITED:
        ours = _rendered(subject.spec.get("path")) and kind.name in subject.environment.targets
        # An expression of its own may call one that runs current.
        if (ours or kind.group_kind in subject.around.by_kind) and kind.group_kind not in own:
            yield from _waits(subject, kind)


def _waits(subject: Subject, kind: Kind) -> Iterator[Hit]:
    if subject.spec.get("wait") is True:
        yield Hit("/spec/wait", f"wait holds every reconciliation until the {kind}s are done")
    for index, check in enumerate(mappings(subject.spec.get("healthChecks"))):
        if _checked(check) == kind.group_kind:
            message = f"the health check waits for {article(kind)} to be done"
            yield Hit(f"/spec/healthChecks/{index}", message)


@warning("TW513", kinds=(CONFIGMAP,))
def missing_health_check(subject: Subject) -> Iterator[Hit]:
    """Yield kinds that Argo CD's settings, if among the objects, have no health check for."""
    if subject.manifest.name != "argocd-cm":
        return
    data = mapping(subject.body.get("data"))
    grouped = text(data.get("resource.customizations"))  # an older way to write all of them
    for kind in _present(subject):
        resource = _SILENT.get(kind)
        if resource is None or resource.partition("_")[0] in grouped:
            continue
        if f"resource.customizations.health.{resource}" not in data:
            yield Hit("/data", f"there is no health check of {article(kind)}")


RULES = defined_in(globals())
