"""Files and folders by their names: which are jobs, links, or nearly named as one that is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.layout import (
    ENVIRONMENTS,
)
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx
from trainwright.specs.misplaced import below_jobs, printable

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SPEC = re.compile(rf"{NAME.pattern}\.yaml")
_FILE_NAME = "Name it environments/<env>/jobs/<job>.yaml, in lower-case letters, digits and dashes."
_NEAR = 0.82  # names at least this similar count as misspelt, but not projects for objects


def misspelt(tree: Tree, folder: str, wanted: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding for each file that is not read, but is nearly named like a missing one."""
    names = [entry.name for entry in tree.entries(folder)]
    missing = tuple(name for name in wanted if name not in names)
    for name in names:
        if name not in wanted and (meant := nearest(name, missing)):
            path = f"{folder}/{printable(name)}"
            message = f"{printable(name)} is not read: did you mean {meant}?"
            yield dx.LAYOUT.at(Location(path), message, remedy=f"Rename it to {meant}.")


def nearest(name: str, wanted: Sequence[str]) -> str:
    """Return the wanted name that this one nearly is, or "" if it is one itself or is near none."""
    if name in wanted:
        return ""
    return next(iter(get_close_matches(_usual(name), wanted, n=1, cutoff=_NEAR)), "")


def _usual(name: str) -> str:
    """A file name in the letters and with the suffix that names of ours have."""
    return re.sub(r"\.(yml|json)$", ".yaml", name.lower())


def job_names(tree: Tree, inside: str) -> tuple[list[str], list[Finding]]:
    """Return the names of the jobs in a folder, and findings about its other entries."""
    names: list[str] = []
    findings: list[Finding] = []
    kind = tree.kind(inside)
    if kind == "link":
        return [], [is_link(inside)]
    for entry in tree.entries(inside) if kind == "folder" else ():
        if entry.name.startswith(".") or entry.name.endswith("~"):
            continue
        path = f"{inside}/{printable(entry.name)}"
        stem = entry.name.removesuffix(".yaml")
        if entry.kind == "link":
            findings.append(is_link(path))
        elif entry.kind == "special":
            findings.append(is_special(path))
        elif stem != entry.name and entry.kind == "file" and NAME.fullmatch(stem):
            names.append(stem)
        elif entry.kind == "folder" and (below := [*below_jobs(tree, inside, entry.name)]):
            findings.extend(below)
        else:
            message = f"{printable(entry.name)} is not a job spec: <job>.yaml is expected here"
            usual = _usual(entry.name)
            misnamed = entry.kind == "file" and _SPEC.fullmatch(usual)
            remedy = f"Rename it to {usual}." if misnamed else _FILE_NAME
            findings.append(dx.LAYOUT.at(Location(path), message, remedy=remedy))
    return names, findings


def is_link(path: str) -> Finding:
    return dx.LAYOUT.at(
        Location(path),
        f"{path} is a symbolic link, which could lead out of {ENVIRONMENTS}/",
        remedy="Replace it by a real file; share specs with `extends`.",
        effect="What it leads to is not read: it could be a file outside of the repository.",
    )


def is_special(path: str) -> Finding:
    return dx.LAYOUT.at(
        Location(path),
        f"{path} is not a regular file: pipes, sockets and devices are not read",
        remedy="Replace it by a regular file, or remove it.",
    )
