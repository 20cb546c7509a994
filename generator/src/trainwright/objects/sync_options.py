"""What the annotations of an object ask of Argo CD."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.datatypes.data import Data, text

OPTIONS = "argocd.argoproj.io/sync-options"


def sync_options(annotations: Mapping[str, Data]) -> frozenset[str]:
    """What an object asks of Argo CD, as in Prune=false."""
    given = text(annotations.get(OPTIONS))
    return frozenset(option.strip() for option in given.split(",")) if given else frozenset()
