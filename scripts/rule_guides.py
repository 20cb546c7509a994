"""The page that each rule belongs to: of the field that it is about, or of its family."""

from __future__ import annotations

from functools import cache

import generated

from trainwright.findings.diagnostics import Diagnostic
from trainwright.rule_model.edit import EditRule
from trainwright.rule_model.rule import Rule

_OF_FIELDS = {
    "affinity": "pools",
    "checkpoint": "checkpoints",
    "elastic": "elastic",
    "env": "containers",
    "entrypoint": "launchers",
    "flags": "flags",
    "image": "images",
    "labels": "targets",
    "launcher": "launchers",
    "maxDuration": "lifecycle",
    "name": "targets",
    "nodeSelector": "kueue",
    "nodes": "targets",
    "pool": "pools",
    "procsPerNode": "launchers",
    "queue": "kueue",
    "resources": "pools",
    "retries": "failures",
    "secrets": "containers",
    "shm": "containers",
    "sidecars": "containers",
    "state": "lifecycle",
    "target": "targets",
    "topology": "kueue",
    "volumes": "containers",
}
_OF_MODULES = {
    "definitions": "manifests",
    "delivery": "gitops",
    "edits": "edits",
    "gitops": "gitops",
    "names": "manifests",
    "roles": "roles",
    "validation": "manifests",
}
_OF_DIAGNOSTICS = {
    "TW006": "layers",
    "TW007": "layers",
    "TW008": "layers",
    "TW010": "schema",
    "TW012": "charts",
    "TW013": "charts",
    "TW017": "cluster",
    "TW020": "pools",
    "TW021": "targets",
    "TW022": "layers",
    "TW023": "pools",
    "TW024": "targets",
    "TW025": "kueue",
    "TW026": "containers",
    "TW027": "pods",
    "TW028": "flags",
    "TW029": "files",
    "TW030": "rules",
    "TW031": "rules",
    "TW032": "rules",
    "TW033": "pools",
    "TW034": "planning",
    "TW040": "gitops",
    "TW041": "gitops",
    "TW042": "charts",
    "TW043": "gitops",
    "TW044": "gitops",
    "TW055": "objects",
    "TW057": "proof",
    "TW058": "proof",
    "TW059": "adopting",
    "TW060": "layers",
    "TW061": "layers",
    "TW063": "layers",
    "TW070": "pod-patch",
    "TW071": "pod-patch",
    "TW080": "gitops",
    "TW081": "ci",
    "TW082": "lifecycle",
}
_OF_FAMILIES = {"TW00": "layers", "TW01": "manifests", "TW05": "lifecycle"}


def guide(rule: Rule | EditRule | Diagnostic) -> str:
    """Return a link, from a page below docs/rules/, to the page that has the whole subject."""
    name = _page(rule)
    return f"[{_title(name)}](../{name}.md)"


def _page(rule: Rule | EditRule | Diagnostic) -> str:
    if isinstance(rule, Diagnostic):
        return _OF_DIAGNOSTICS.get(rule.id) or _OF_FAMILIES[rule.id[:4]]
    if rule.id.startswith("TW6") and not isinstance(rule, EditRule):
        return "kueue"
    modules = rule.module.split(".")
    if page := next((_OF_MODULES[part] for part in reversed(modules) if part in _OF_MODULES), ""):
        return page
    field = rule.spec.dotted.partition(".")[0] if isinstance(rule, Rule) else ""
    return _OF_FIELDS.get(field) or ("targets" if "kinds" in modules else "pods")


@cache
def _title(name: str) -> str:
    first = (generated.ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    return next(line[2:] for line in first.splitlines() if line.startswith("# "))
