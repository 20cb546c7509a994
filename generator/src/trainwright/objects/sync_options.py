"""The Argo CD sync options in an object's annotations."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.datatypes.data import Data, text

OPTIONS = "argocd.argoproj.io/sync-options"


def sync_options(annotations: Mapping[str, Data]) -> frozenset[str]:
    """Return an object's sync options for Argo CD, such as Prune=false."""
    given = text(annotations.get(OPTIONS))
    return frozenset(option.strip() for option in given.split(",")) if given else frozenset()
