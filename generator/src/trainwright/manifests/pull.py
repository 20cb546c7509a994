"""CustomResourceDefinitions as the API server lists them, as files that stay the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.manifest import LAST_APPLIED
from trainwright.documents import yamlio
from trainwright.files import filetree
from trainwright.files.filetree import Changes

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"
PLURAL = "customresourcedefinitions"

# A name that the API server accepts, and that stays inside of its folder.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def changes(folder: Path, definitions: Iterable[Mapping[str, Data]]) -> Changes:
    """Return the changes that write the CRDs to <group>/<plural>.yaml. No file is ever removed."""
    wanted = {_path(body): yamlio.dump(_kept(body)) for body in definitions}
    present = filetree.hashes(folder, filetree.listing(folder))
    return filetree.compare(wanted, present, keep=frozenset(present))


def _path(body: Mapping[str, Data]) -> str:
    try:
        parts = (body["spec"]["group"], body["spec"]["names"]["plural"])
    except (KeyError, TypeError):
        raise SourceError(f"the cluster lists a {KIND} without a group or plural") from None
    if not all(isinstance(part, str) and _NAME.fullmatch(part) for part in parts):
        raise SourceError(f"the cluster lists a {KIND} that no file can be named after: {parts}")
    return f"{parts[0]}/{parts[1]}.yaml"


def _kept(body: Mapping[str, Data]) -> dict[str, Data]:
    """Return the authored part of a CRD, sorted, without what the server adds or time changes.

    A conversion webhook's certificate is left out too: it is renewed, and not part of the schema.
    """
    metadata = body.get("metadata") or {}
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    kept = {"name": metadata.get("name"), "labels": metadata.get("labels"), "annotations": notes}
    spec = _sorted(body.get("spec") or {})
    client = ((spec.get("conversion") or {}).get("webhook") or {}).get("clientConfig") or {}
    client.pop("caBundle", None)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {key: _sorted(value) for key, value in kept.items() if value},
        "spec": spec,
    }


def _sorted(value: Data) -> Data:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
