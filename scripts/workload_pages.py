"""Write docs/workloads.md and a page per public training job, in spec form, below docs/workloads/.

python scripts/workload_pages.py [--check]
python scripts/workload_pages.py --from FOLDER  # import the originals anew, which are in FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

import generated
import yaml

from trainwright import importing
from trainwright.api import Finding, Repository
from trainwright.importing import text
from trainwright.importing.batch import ImportOptions, run
from trainwright.importing.convert import Imported

DOCS = generated.ROOT / "docs"
EXAMPLE = DOCS / "examples" / "workloads"
JOBS = EXAMPLE / "environments" / "open" / "jobs"
NOTES = EXAMPLE / "notes.json"
COMMAND = "python scripts/workload_pages.py"
TODAY = "2026-01-01"  # no waiver of the example ends
_GENERATED = f"<!-- Generated from docs/examples/workloads by `{COMMAND}`. Do not edit. -->"
_HEAD = f"""\
{_GENERATED}
# Public training jobs as specs

For anyone who wants to see what a real job looks like before writing one: training jobs that other projects publish, as `trainwright import` turns them into specs. Each page names its source and licence, shows the spec, what the import left out and why, and what `trainwright check` finds in it.

They differ in what matters for a spec: the kind of the object, elastic or fixed, started as a Python program or by a shell script, GPUs or other accelerators, with or without a queue. All are under Apache-2.0 or MIT-0; the originals are linked, not copied.

The environment of these pages, [environment.yaml](examples/workloads/environments/open/environment.yaml), allows everything that the originals take, and has no pools. In a repository of yours, resources, fabric, tolerations and the image's registry are [the pool's](pools.md) or the environment's, and the specs are shorter than here.

| job | kind of the original | lines there | lines of the spec |
|---|---|---|---|
"""  # noqa: E501 - a paragraph is a line, as on the other pages


class Source(TypedDict):
    """A public job: where it is and what to look at."""

    name: str
    file: str
    title: str
    url: str
    kind: str
    license: str
    about: str


class Note(TypedDict):
    """What only an import of the original can know of it."""

    lines: int
    left: list[str]


def sources() -> list[Source]:
    loaded: list[Source] = yaml.safe_load((EXAMPLE / "sources.yaml").read_text(encoding="utf-8"))
    return loaded


def pages() -> dict[Path, str]:
    """Every page by its path: the index, and one per job."""
    notes: dict[str, Note] = json.loads(NOTES.read_text(encoding="utf-8"))
    findings: dict[str, list[Finding]] = {}
    for finding in Repository(EXAMPLE, today=TODAY).check().findings:
        findings.setdefault(finding.subject, []).append(finding)
    rows = [_row(source, notes[source["name"]]) for source in sources()]
    return {
        DOCS / "workloads.md": _HEAD + "\n".join(rows) + "\n",
        **{
            DOCS / "workloads" / f"{source['name']}.md": _page(
                source, notes[source["name"]], findings.get(f"open/{source['name']}", [])
            )
            for source in sources()
        },
    }


def _row(source: Source, note: Note) -> str:
    name = source["name"]
    count = lines(_spec(name))
    return f"| [{source['title']}](workloads/{name}.md) | {source['kind']} | {note['lines']} | {count} |"  # noqa: E501


def _page(source: Source, note: Note, findings: list[Finding]) -> str:
    name = source["name"]
    parts = [_GENERATED, f"# {source['title']}", "", source["about"], ""]
    parts += [f"* Original: [{source['kind']}]({source['url']}), {note['lines']} lines"]
    spdx, _, rest = source["license"].partition(",")
    text = "/".join([*source["url"].split("/")[:7], "LICENSE"])  # at the commit of the original
    parts += [f"* Licence of the original: [{spdx}]({text}){',' if rest else ''}{rest}", ""]
    parts += ["## As a spec", "", "```yaml", _spec(name).strip(), "```", ""]
    parts += ["## What the import left out", ""]
    parts += [f"* {line}" for line in note["left"]] or ["Nothing."]
    parts += ["", "## What check finds", ""]
    parts += list(_found(findings)) or ["Nothing."]
    return "\n".join(parts) + "\n"


def _found(findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        rule = f"[{finding.rule}](../rules/{finding.rule}.md)"
        yield f"* {finding.severity.value} {rule}: {finding.message}"


def _spec(name: str) -> str:
    return (JOBS / f"{name}.yaml").read_text(encoding="utf-8")


def lines(content: str) -> int:
    """How many lines there are, blank ones and comments aside."""
    stripped = (line.strip() for line in content.splitlines())
    return sum(1 for line in stripped if line and not line.startswith("#"))


def imported(folder: Path) -> tuple[dict[Path, str], dict[str, Note]]:
    """The specs of the originals, and what is known of these, without writing anything."""
    specs: dict[Path, str] = {}
    notes: dict[str, Note] = {}
    for source in sources():
        original = folder / source["file"]
        done = _imported(source, original)
        about = f"# {source['title']}, imported from\n# {source['url']}\n# {source['license']}\n"
        specs[JOBS / f"{source['name']}.yaml"] = about + text.spec(done)
        notes[source["name"]] = {
            "lines": lines(original.read_text(encoding="utf-8")),
            "left": [_left(str(left), original) for left in done.left],
        }
    return specs, notes


def _imported(source: Source, original: Path) -> Imported:
    import_input = importing.ImportInput()
    import_input.files((str(original),))
    options = ImportOptions(environment="open", name=source["name"], force=True, write=False)
    (done,) = run(EXAMPLE, import_input, options).imported
    return done


def _left(text_: str, original: Path) -> str:
    """What was left, without the folder that the original is in."""
    return text_.replace(f"{original}:", "line ").replace("<", "\\<")


def _written(specs: Mapping[Path, str], notes: Mapping[str, Note]) -> None:
    JOBS.mkdir(parents=True, exist_ok=True)
    for path in set(JOBS.glob("*.yaml")) - set(specs):
        path.unlink()
    for path, spec in specs.items():
        path.write_text(spec, encoding="utf-8")
    NOTES.write_text(json.dumps(notes, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--from"]:
        _written(*imported(Path(sys.argv[2])))
        del sys.argv[1:]
    generated.pages(__doc__, DOCS / "workloads", pages(), COMMAND)
