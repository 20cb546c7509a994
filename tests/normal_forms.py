"""The normal form of manifests, as tests compare it."""

from __future__ import annotations

from trainwright.datatypes.manifest import Manifest
from trainwright.importing.equivalence import form
from trainwright.importing.equivalence.form import NormalForm
from trainwright.kinds import operators


def normal_form(manifests: tuple[Manifest, ...], name: str = "") -> NormalForm:
    """Return the normal form of a run that is called `name`."""
    if name:
        manifests = form.renamed(manifests, name)
    return form.normal_form(operators.workload(manifests), manifests)
