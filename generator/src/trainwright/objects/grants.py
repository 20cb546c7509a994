"""What objects of RBAC give to whom, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.datatypes.data import mapping, mappings, text, words
from trainwright.datatypes.listing import listed
from trainwright.datatypes.manifest import Manifest

_GROUP = "rbac.authorization.k8s.io/"
_MOST = 8  # subjects, rules


def grants(manifest: Manifest) -> str:
    """Return what a role allows, or to whom a binding gives which; "" for any other object."""
    if not manifest.api_version.startswith(_GROUP):
        return ""
    if manifest.kind in ("RoleBinding", "ClusterRoleBinding"):
        role = mapping(manifest.body.get("roleRef"))
        subjects = [_subject(it) for it in mappings(manifest.body.get("subjects"))]
        to = listed(subjects, _MOST) or "no subject"
        return f"binds {text(role.get('kind'))}/{text(role.get('name'))} to {to}"
    if manifest.kind not in ("Role", "ClusterRole"):
        return ""
    if "aggregationRule" in manifest.body:
        return "allows what the roles do that its aggregationRule selects"
    rules = [_rule(it) for it in mappings(manifest.body.get("rules"))]
    more = f" and {len(rules) - _MOST} more rules" if len(rules) > _MOST else ""
    return f"allows {'; '.join(rules[:_MOST]) or 'nothing'}{more}"


def _subject(subject: Mapping[str, Any]) -> str:
    parts = (text(subject.get(key)) for key in ("kind", "namespace", "name"))
    return "/".join(filter(None, parts))


def _rule(rule: Mapping[str, Any]) -> str:
    """Return a rule as "get, list of secrets named hf-token"."""
    verbs, resources = (", ".join(words(rule.get(key))) for key in ("verbs", "resources"))
    resources = resources or ", ".join(words(rule.get("nonResourceURLs")))
    groups = [group or "core" for group in words(rule.get("apiGroups"))]
    within = f" of {', '.join(groups)}" if groups not in ([], ["core"]) else ""
    names = ", ".join(words(rule.get("resourceNames")))
    return f"{verbs} of {resources}{within}{names and f' named {names}'}"
