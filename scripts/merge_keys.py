"""Write chart/templates/_mergekeys.tpl: the lists of a pod whose items a patch merges, by a key.

python scripts/merge_keys.py [--check]
"""

from __future__ import annotations

import sys

from generated import ROOT, main

from trainwright.documents.validation import kubernetes_schemas

TEMPLATE = ROOT / "chart" / "templates" / "_mergekeys.tpl"
COMMAND = "python scripts/merge_keys.py"
_HEAD = f"""\
{{{{/*
Generated from the schemas of Kubernetes {kubernetes_schemas.VERSIONS[0]} to \
{kubernetes_schemas.NEWEST} by `{COMMAND}`. Do not edit.

Lists of a pod template whose items a strategic merge patch merges, by which key
(x-kubernetes-patch-merge-key). Any other list is replaced.
*/}}}}
{{{{- define "training-job.mergeKeys" }}}}
"""


def template() -> str:
    """The whole text of the template. Exits where a name alone does not decide what is merged."""
    keys: dict[str, str] = {}
    for version in kubernetes_schemas.VERSIONS:
        for name, key in kubernetes_schemas.merge_keys(version).items():
            if keys.setdefault(name, key) != key:
                sys.exit(f"{name} is merged by {keys[name]} and by {key}")
    return _HEAD + "".join(f"{name}: {keys[name]}\n" for name in sorted(keys)) + "{{- end }}\n"


if __name__ == "__main__":
    main(__doc__, TEMPLATE, template(), COMMAND)
