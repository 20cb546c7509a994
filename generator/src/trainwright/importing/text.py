"""What was imported, in words: the spec's file, and the account of what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainwright.equivalence import Difference
from trainwright.importing.convert import Imported
from trainwright.kinds.reading import Loss
from trainwright.pointer import Pointer
from trainwright.specs import yamlio

_SCHEMA = (
    "# yaml-language-server: $schema=https://trainwright.io/schemas/v1alpha1/job.schema.json\n"
)

# What every rendered run has, whatever it was before.
_ALWAYS = (
    *(
        Pointer.of(*holder, "labels", f"{domain}/*")
        for holder in ((), ("pods", "*"), ("beside", "*/run"))
        for domain in ("app.kubernetes.io", "trainwright.io")
    ),
    Pointer.of("beside", "*/run", "annotations", "argocd.argoproj.io/*"),
    Pointer.of("beside", "ConfigMap/run", "immutable"),
    Pointer.of("beside", "ConfigMap/run", "readOnly"),
    Pointer.of("annotations", "argocd.argoproj.io/*"),
    Pointer.of("annotations", "kustomize.toolkit.fluxcd.io/*"),
)


_WORDS = {kind: kind.value.replace("-", " ") for kind in Loss}
_COLOURS = {Loss.COSMETIC: "cyan", Loss.BEHAVIOUR: "yellow", Loss.CANNOT_RUN: "red"}


def spec(imported: Imported) -> str:
    """The text of the job file."""
    return _SCHEMA + yamlio.dump(dict(imported.spec), blocks=True, flows=True)


def report(imported: Imported, path: str, paint: Callable[[str, str], str]) -> Iterator[str]:
    """What the spec does not carry, and what its run has otherwise."""
    yield f"{imported.source.place.file}: {imported.source.title} is {path}"
    for left in sorted(imported.left, key=lambda one: -one.severity.weight):
        label = f"left, {_WORDS[left.severity]}"
        yield f"  {paint(label, _COLOURS[left.severity])}{' ' * (18 - len(label))}{left}"
    for difference in differing(imported):
        yield f"  {paint('differs', 'cyan')}           {difference}"
    for note in imported.notes:
        yield f"  note              {note}"


def differing(imported: Imported) -> Iterator[Difference]:
    """What the run has otherwise, but for what every rendered run has."""
    for difference in imported.added:
        if not any(map(difference.path.matches, _ALWAYS)):
            yield difference
