"""How the tool that has applied an object lets go of it, in an order in which nothing is pruned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trainwright.datatypes.data import Data, text
from trainwright.datatypes.listing import plural
from trainwright.datatypes.manifest import Manifest
from trainwright.objects.departure import PRUNE
from trainwright.objects.sync_options import OPTIONS, sync_options

_KEPT = ("Prune=false", "Delete=false")
_FLUX = "kustomize.toolkit.fluxcd.io/"
_HELM = "meta.helm.sh/release-"
_MERGE = "Merge what was written here"


class Holder(NamedTuple):
    """What applies an object: an engine, and the name of its own object for it."""

    engine: str
    name: str = ""
    namespace: str = ""

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.engine} {self.path}".rstrip()


def holder_of(body: Mapping[str, Data]) -> Holder:
    """Return what applies an object, by its labels and annotations; kubectl if none tells."""
    manifest = Manifest(body=body)
    labels, annotations = manifest.labels, manifest.annotations
    tracked = text(annotations.get("argocd.argoproj.io/tracking-id")).partition(":")[0]
    application = tracked or text(labels.get("argocd.argoproj.io/instance"))
    if application:
        namespace, _, name = application.rpartition("_")
        return Holder("Argo CD", name, namespace)
    if name := text(labels.get(f"{_FLUX}name")):
        return Holder("Flux", name, text(labels.get(f"{_FLUX}namespace")))
    if name := text(annotations.get(f"{_HELM}name")):
        return Holder("Helm", name, text(annotations.get(f"{_HELM}namespace")))
    return Holder("kubectl")


def steps(objects: Iterable[tuple[Mapping[str, Data], Manifest]]) -> Iterator[str]:
    """Yield for each holder what to do, in order, before and after the written files are merged.

    Each object is given as the cluster has it, and as it is to be applied.
    """
    held: defaultdict[Holder, list[Manifest]] = defaultdict(list)
    for body, manifest in objects:
        held[holder_of(body)].append(manifest)
    for holder, manifests in sorted(held.items()):
        yield f"How {holder} lets go of {plural(len(manifests), 'object')}:"
        lines = _STEPS[holder.engine](holder, manifests)
        yield from (f"  {number}. {line}" for number, line in enumerate(lines, start=1))


def after_merge(holder: Holder, manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield the steps that are left after the merge if a holder has not let go."""
    steps = _STEPS[holder.engine](holder, manifests)
    return (step for step in steps if not step.startswith(_MERGE))


def _argocd(holder: Holder, manifests: Sequence[Manifest]) -> Iterator[str]:
    app = holder.path
    yield f"Stop its syncs: `argocd app set {app} --sync-policy none`"
    yield from _annotated(manifests, _argocd_mark)
    yield f"{_MERGE}, and sync it: the objects then belong to the new Application"
    yield f"Take their manifests out of the source of {app}: a sync of it prunes none of them"
    yield f"Begin its syncs again, or end it: `argocd app delete {app} --cascade=false`"


def _flux(holder: Holder, manifests: Sequence[Manifest]) -> Iterator[str]:
    where = f"{holder.name} --namespace {holder.namespace}" if holder.namespace else holder.name
    yield f"Stop it: `flux suspend kustomization {where}`"
    yield from _annotated(manifests, _flux_mark)
    yield f"{_MERGE}: the new Kustomization then applies the objects"
    yield f"Take their manifests out of the source of {holder.name}"
    yield f"Let it go on, which prunes none of them: `flux resume kustomization {where}`"


def _helm(holder: Holder, manifests: Sequence[Manifest]) -> Iterator[str]:
    yield from _annotated(manifests, lambda _: "helm.sh/resource-policy=keep")
    yield f"{_MERGE}"
    yield f"Take their templates out of the release {holder.name}, or uninstall it"


def _kubectl(_: Holder, manifests: Sequence[Manifest]) -> Iterator[str]:
    yield f"{_MERGE}: no engine has applied the objects, and none prunes them"
    yield "Remove their old manifests, by which the objects could be applied or deleted again"


_STEPS: Mapping[str, Callable[[Holder, Sequence[Manifest]], Iterator[str]]] = {
    "Argo CD": _argocd,
    "Flux": _flux,
    "Helm": _helm,
    "kubectl": _kubectl,
}


def _argocd_mark(manifest: Manifest) -> str:
    present = text(manifest.annotations.get(OPTIONS))
    missing = [option for option in _KEPT if option not in sync_options(manifest.annotations)]
    return f"{OPTIONS}={','.join(filter(None, (present, *missing)))}" if missing else ""


def _flux_mark(manifest: Manifest) -> str:
    marked = "disabled" in (manifest.annotations.get(PRUNE), manifest.labels.get(PRUNE))
    return "" if marked else f"{PRUNE}=disabled"


def _annotated(manifests: Sequence[Manifest], mark: Callable[[Manifest], str]) -> Iterator[str]:
    """Yield the commands that annotate objects, one per namespace, kind and annotation."""
    names_by_group: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for manifest in manifests:
        if annotation := mark(manifest):
            where = manifest.namespace, manifest.kind.lower(), annotation
            names_by_group[where].append(manifest.name)
    for (namespace, kind, annotation), names in names_by_group.items():
        command = f"kubectl --namespace {namespace} annotate {kind} {' '.join(names)}"
        yield f"Keep them: `{command} --overwrite {annotation}`"
