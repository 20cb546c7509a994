"""Strategic merge patches as Kubernetes applies them: what the chart's results are compared with.

Written after the behaviour of `kubectl patch --local --type strategic`, with Kubernetes' own merge
keys. https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

from __future__ import annotations

from copy import deepcopy

from trainwright.datatypes.data import Data
from trainwright.documents.validation import kubernetes_schemas

MERGE_KEYS = kubernetes_schemas.merge_keys(kubernetes_schemas.NEWEST)


def patched(data: Data, *patches: Data) -> Data:
    """A mapping with patches, each over the result of the one before."""
    for patch in patches:
        data = _mapping(deepcopy(data), deepcopy(patch))
    return data


def _mapping(data: Data, patch: Data) -> Data:
    directive = patch.pop("$patch", "merge")
    if directive == "delete":
        return {}
    if directive == "replace" or not isinstance(data, dict):
        data = {}
    for key, value in patch.items():
        if value is None:
            data.pop(key, None)
        elif isinstance(value, dict):
            data[key] = _mapping(data.get(key), value)
        elif isinstance(value, list) and key in MERGE_KEYS:
            data[key] = _list(data.get(key), value, MERGE_KEYS[key])
        else:
            data[key] = value
    return data


def _list(data: Data, patch: Data, key: str) -> Data:
    found = data if isinstance(data, list) else []
    directives = {id(item): item.get("$patch", "merge") for item in patch}
    if "replace" in directives.values():
        found = []
    gone = [item[key] for item in patch if directives[id(item)] == "delete"]
    wanted = [item for item in patch if directives[id(item)] == "merge"]
    found = [item for item in found if item[key] not in gone]
    before = [item[key] for item in found]  # the server's order
    merged = list(found)
    for item in wanted:
        index = next((i for i, have in enumerate(merged) if have[key] == item[key]), None)
        if index is None:
            merged.append(_mapping({}, item))
        else:
            merged[index] = _mapping(merged[index], item)
    order = list(dict.fromkeys(item[key] for item in wanted))
    ours = sorted((m for m in merged if m[key] in order), key=lambda item: order.index(item[key]))
    theirs = [item for item in merged if item[key] not in order]
    return _interleaved(theirs, ours, before, key)


def _interleaved(left: Data, right: Data, before: Data, key: str) -> Data:
    """Two lists as one: an item of the right is next, unless that of the left was in front of it."""
    result = []
    while left and right:
        both = left[0][key] in before and right[0][key] in before
        first = both and before.index(left[0][key]) < before.index(right[0][key])
        result.append((left if first else right).pop(0))
    return [*result, *left, *right]
