"""What kustomize, by which engines apply rendered folders, leaves out without a word."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.datatypes.data import Data

# https://kubectl.docs.kubernetes.io/references/kustomize/glossary/
LOCAL_CONFIG = "config.kubernetes.io/local-config"


def leaves_out(annotations: Mapping[str, Data]) -> bool:
    """Whether an object with some annotations is left out: any value but "false" does it."""
    return str(annotations.get(LOCAL_CONFIG, "false")) != "false"
