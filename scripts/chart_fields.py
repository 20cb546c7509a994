"""Write chart/templates/_fields.tpl: the fields of a pod that values give as Kubernetes has them.

python scripts/chart_fields.py [--check]
"""

from __future__ import annotations

from generated import ROOT, main

from trainwright.datatypes.job import POD_FIELDS

TEMPLATE = ROOT / "chart" / "templates" / "_fields.tpl"
COMMAND = "python scripts/chart_fields.py"
_BY_THEMSELVES = ("priorityClassName", "runtimeClassName", "schedulerName")  # in _pod.tpl
_HEAD = f"""\
{{{{/*
Generated from the fields of a job by `{COMMAND}`. Do not edit.

Fields of a pod that values give as Kubernetes has them, in the order in which they are rendered.
*/}}}}
{{{{- define "training-job.podFields" -}}}}
"""


def template() -> str:
    """The whole text of the template."""
    first, *others = (key for key in POD_FIELDS.values() if key not in _BY_THEMSELVES)
    # Claims have names in a spec, and are a list in values as in a pod.
    return f"{_HEAD}{' '.join((first, 'resourceClaims', *others))}\n{{{{- end }}}}\n"


if __name__ == "__main__":
    main(__doc__, TEMPLATE, template(), COMMAND)
