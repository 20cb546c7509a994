"""Write docs/upstream.md from the table of upstream behaviour, or hold the table against sources.

python scripts/upstream_page.py [--check]
python scripts/upstream_page.py --against kueue=../kueue [--ref v0.20.0]

The second form reads a checkout (or a bare clone) of a project at a tag of it, by default the one
that the table names, and lists each behaviour whose text is not in its file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import generated

from trainwright.rule_model.upstream import Behaviour, numbers, table

PAGE = generated.ROOT / "docs" / "upstream.md"
COMMAND = "python scripts/upstream_page.py"
_HEAD = f"""\
<!-- Generated from the table of upstream behaviour by `{COMMAND}`. Do not edit. -->
# What Trainwright relies on upstream

This page is for those who upgrade an operator of a cluster, or wonder why a rule is as it is.
Each row is something that another project does, the versions that do it, and the file in
which it was read. Rules, refusals and predictions take versions and feature gates from this
table; your own are in [environment.yaml](schema.md): `kubernetes.version` and
`kubernetes.features`, `targets.<target>.version` and `targets.jobset.featureGates`, and `kueue`.

When a version of a project comes out, hold the table against its sources:

```text
git clone https://github.com/kubernetes-sigs/kueue
{COMMAND} --against kueue=kueue --ref v0.19.2
```

It names every row whose text is not in its file any more: read that file again, then correct the
row, or give it `until`.
"""


def page() -> str:
    """The whole text: a section for each project."""
    lines = [_HEAD]
    for project, rows in groupby(table().values(), key=lambda row: row.project):
        lines += [f"## {project}", "", "| what it does | kinds | versions | gate | read in |"]
        lines += ["|---|---|---|---|---|", *map(_row, rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(row: Behaviour) -> str:
    gate = f"`{row.gate}`, {_default(row)}" if row.gate else ""
    url = f"https://github.com/{row.repository}/blob/{row.tag}/{row.path}"
    kinds = ", ".join(row.kinds)
    file = row.path.rpartition("/")[2]
    return f"| {row.summary} | {kinds} | {_versions(row)} | {gate} | [{file}]({url}) {row.tag} |"


def _default(row: Behaviour) -> str:
    return f"on from {row.on_since}" if row.on_since else "off"


def _versions(row: Behaviour) -> str:
    if row.since and row.until:
        return f"{row.since} until {row.until}"
    return f"from {row.since}" if row.since else f"until {row.until}" if row.until else "all"


def rows_of(key: str, ref: str) -> list[Behaviour]:
    """The behaviours of a project, of those that a version should still have."""
    ours = [row for row in table().values() if row.name.startswith(f"{key}/")]
    return [row for row in ours if not numbers(ref) or row.holds(ref)]


def missing(key: str, checkout: Path, ref: str) -> Iterator[str]:
    """Each behaviour of a project whose text is not in its file at a tag."""
    for row in rows_of(key, ref):
        at = ref or row.tag
        shown = ("git", "-C", str(checkout), "show", f"{at}:{row.path}")
        done = subprocess.run(shown, capture_output=True, check=False)  # noqa: S603
        if done.returncode:
            yield f"{row.name}: there is no {row.path} at {at}"
        elif row.text not in done.stdout.decode(errors="replace"):
            yield f"{row.name}: {row.path} at {at} does not have {row.text!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="fail when the page is out of date")
    parser.add_argument("--against", metavar="PROJECT=CHECKOUT", help="a clone of its repository")
    parser.add_argument("--ref", default="", help="the tag to read; by default that of the table")
    options = parser.parse_args()
    if not options.against:
        generated.update({PAGE: page()}, set(), COMMAND, check=options.check)
        return
    key, _, checkout = options.against.partition("=")
    if not any(name.startswith(f"{key}/") for name in table()):
        projects = ", ".join(dict.fromkeys(name.partition("/")[0] for name in table()))
        sys.exit(f"there is no project {key!r} in the table: it is one of {projects}")
    differences = list(missing(key, Path(checkout), options.ref))
    rows = len(rows_of(key, options.ref))
    print(*differences, f"{rows - len(differences)} of {rows} as in the table", sep="\n")
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
