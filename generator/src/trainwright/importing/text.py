"""What was imported, in words: the spec's file, and the account of what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from trainwright.importing.convert import Imported
from trainwright.specs import yamlio

_SCHEMA = (
    "# yaml-language-server: $schema=https://trainwright.io/schemas/v1alpha1/job.schema.json\n"
)

# What every rendered run has, whatever it was before.
_ALWAYS = (
    "labels.app.kubernetes.io/*",
    "labels.trainwright.io/*",
    "pods.*labels.app.kubernetes.io/*",
    "pods.*labels.trainwright.io/*",
    "beside.*/run.labels.app.kubernetes.io/*",
    "beside.*/run.labels.trainwright.io/*",
    "beside.*/run.annotations.argocd.argoproj.io/*",
    "beside.ConfigMap/run.immutable",
    "beside.ConfigMap/run.readOnly",
    "annotations.argocd.argoproj.io/*",
    "annotations.kustomize.toolkit.fluxcd.io/*",
)


def spec(imported: Imported) -> str:
    """The text of the job file."""
    return _SCHEMA + yamlio.dump(dict(imported.spec))


def report(imported: Imported, path: str, paint: Callable[[str, str], str]) -> Iterator[str]:
    """What the spec does not carry, and what its run has otherwise."""
    yield f"{imported.source.place.file}: {imported.source.title} is {path}"
    for left in imported.left:
        yield f"  {paint('left', 'yellow')}   {left}"
    for difference in imported.added:
        if not any(fnmatchcase(difference.path, always) for always in _ALWAYS):
            yield f"  {paint('differs', 'cyan')} {difference}"
    for note in imported.notes:
        yield f"  note    {note}"
