"""How the tool that has applied an object lets go of it, in an order in which nothing is pruned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trainwright.datatypes.data import Data, text
from trainwright.datatypes.listing import plural
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.reading import table
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
        lines = enumerate(_steps(holder, manifests), start=1)
        yield from (f"  {number}. {line}" for number, line in lines)


def after_merge(holder: Holder, manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield the steps that are left after the merge if a holder has not let go."""
    return (step for step in _steps(holder, manifests) if not step.startswith(_MERGE))


def _steps(holder: Holder, manifests: Sequence[Manifest]) -> Iterator[str]:
    namespace = f" --namespace {holder.namespace}" if holder.namespace else ""
    for step in _STEPS[holder.engine]:
        if step == "keep":
            yield from _annotated(manifests, _MARKS[holder.engine])
        else:
            yield step.format(
                path=holder.path, name=holder.name, namespaced=holder.name + namespace, merge=_MERGE
            )


def _argocd_mark(manifest: Manifest) -> str:
    present = text(manifest.annotations.get(OPTIONS))
    missing = [option for option in _KEPT if option not in sync_options(manifest.annotations)]
    return f"{OPTIONS}={','.join(filter(None, (present, *missing)))}" if missing else ""


def _flux_mark(manifest: Manifest) -> str:
    marked = "disabled" in (manifest.annotations.get(PRUNE), manifest.labels.get(PRUNE))
    return "" if marked else f"{PRUNE}=disabled"


_STEPS = table(__file__, "letting_go.yaml")
_MARKS: Mapping[str, Callable[[Manifest], str]] = {
    "Argo CD": _argocd_mark,
    "Flux": _flux_mark,
    "Helm": lambda _: "helm.sh/resource-policy=keep",
}


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
