"""Files beside the rendered ones by which a GitOps engine changes, or leaves out, what it applies.

Argo CD merges `.argocd-source*.yaml` into the source of an application, and takes a folder for a
chart by a name that ends with Chart.yaml:
https://argo-cd.readthedocs.io/en/stable/user-guide/parameters/#store-overrides-in-git,
https://github.com/argoproj/argo-cd/blob/master/util/app/discovery/discovery.go
Kustomize refuses a folder with two kustomizations. Flux leaves out what a `.sourceignore` of any
folder names: https://github.com/fluxcd/pkg/blob/main/sourceignore/sourceignore.go
Argo CD clones with git, which converts files on their way to the disk, as `.gitattributes` has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial

from trainwright.datatypes.model import Finding, Location
from trainwright.errors import SourceError
from trainwright.findings import diagnostics as dx
from trainwright.specs import schema
from trainwright.specs.entry import above
from trainwright.specs.layout import ENVIRONMENTS, RENDERED, JobFile
from trainwright.specs.tree import Tree

_IGNORE, _ATTRIBUTES = ".sourceignore", ".gitattributes"
_READ_BY_NAME = {
    r"\.argocd-source.*\.yaml": "Argo CD merges {name} into the source: it can replace images, "
    "rename runs and patch them",
    r"kustomization\.yml|Kustomization": "kustomize refuses a folder with kustomization.yaml and "
    "{name}: nothing is applied",
    r".*Chart\.yaml": "Argo CD takes a folder with {name} for a Helm chart",
}
# Of a run and of what lists them; a pattern that spares these spares the others as well.
_FILES = ("kustomization.yaml", "{job}/{job}.yaml", "{job}/{target}.yaml", "{job}/values.yaml")
# https://git-scm.com/docs/gitattributes: of these git writes other bytes than the commit holds.
_MACRO = "[attr]"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"(.*)')
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|.)")
_CONVERTS = re.compile(r"(?:filter|working-tree-encoding)=.+|ident|eol=crlf")


def findings(tree: Tree, jobs: Mapping[str, Sequence[JobFile]]) -> Iterator[Finding]:
    """Each file that changes what an engine makes of the rendered files of an environment."""
    rendered = {
        f"{ENVIRONMENTS}/{name}/{RENDERED}": [file.name for file in files]
        for name, files in jobs.items()
    }
    there = {folder: names for folder, names in rendered.items() if tree.kind(folder) == "folder"}
    for folder in there:
        yield from _by_name(tree, folder)
    around = {upper for folder in there for upper in ("", *above(folder), folder)}
    converted = partial(_converted, _macros(tree))
    for folder in sorted(around):
        start = f"{folder}/" if folder else ""
        for name, judged in ((_IGNORE, _ignored), (_ATTRIBUTES, converted)):
            if lines := tuple(_lines(tree, f"{start}{name}")):
                files = [file for file in _files(there) if file.startswith(start)]
                yield from judged(lines, start, files)


def is_read(path: str) -> bool:
    """Return whether an engine reads a file of this name beside others."""
    name = path.rpartition("/")[2]
    return name in (_IGNORE, _ATTRIBUTES) or any(re.fullmatch(p, name) for p in _READ_BY_NAME)


def _files(rendered: Mapping[str, Sequence[str]]) -> Iterator[str]:
    fields = schema.contract("job.schema.json")["$defs"]["fields"]["properties"]
    target = fields["target"]["default"]
    for folder, jobs in rendered.items():
        for job in jobs or ("job",):
            yield from (f"{folder}/{file.format(job=job, target=target)}" for file in _FILES)


def _by_name(tree: Tree, folder: str) -> Iterator[Finding]:
    for entry in tree.entries(folder):
        for pattern, message in _READ_BY_NAME.items() if entry.kind != "folder" else ():
            if re.fullmatch(pattern, entry.name):
                name = entry.name.encode("utf-8", "replace").decode()
                yield dx.ENGINE_FILE.at(Location(f"{folder}/{name}"), message.format(name=name))


def _lines(tree: Tree, path: str) -> Iterator[tuple[Location, str]]:
    """The lines of a small file that mean something, none where there is no such file."""
    if tree.kind(path) == "file":
        with suppress(OSError, SourceError):
            text = tree.read(path).decode("utf-8-sig", "replace")
            for number, line in enumerate(text.splitlines(), 1):
                if line.strip() and not line.startswith("#"):
                    yield Location(path, number), line


def _ignored(
    lines: Iterable[tuple[Location, str]], start: str, files: Sequence[str]
) -> Iterator[Finding]:
    """The lines by which Flux leaves files out: the last that names a file decides."""
    patterns = [(place, line.strip()) for place, line in lines]
    deciding: dict[Location, tuple[str, str]] = {}
    for file in files:
        inside = file.removeprefix(start)
        for place, pattern in reversed(patterns):
            if _names(pattern.removeprefix("!"), inside):
                if not pattern.startswith("!"):
                    deciding.setdefault(place, (pattern, file))
                break
    for place, (pattern, file) in sorted(deciding.items()):
        yield dx.ENGINE_FILE.at(place, f"Flux leaves out {file}, by the pattern {pattern}")


def _converted(
    macros: Collection[str],
    lines: Iterable[tuple[Location, str]],
    start: str,
    files: Sequence[str],
) -> Iterator[Finding]:
    """The lines by which git writes other bytes than those that were rendered."""
    for place, line in lines:
        pattern, attributes = _attributes(line)
        converting = next((it for it in attributes if _converts(it, macros)), None)
        names = (file for file in files if _names(pattern, file.removeprefix(start)))
        if converting and (file := next(names, "")):
            message = f"Argo CD applies {file} as {converting} makes it, and not as it was rendered"
            yield dx.ENGINE_FILE.at(place, message)


def _macros(tree: Tree) -> frozenset[str]:
    """The attributes that convert by what the file at the top defines them as."""
    users: dict[str, list[str]] = {}
    for _, line in _lines(tree, _ATTRIBUTES):
        first, *attributes = line.split()
        for attribute in attributes if first.startswith(_MACRO) else ():
            users.setdefault(attribute, []).append(first.removeprefix(_MACRO))
    found = set[str]()
    reached = [attribute for attribute in users if _CONVERTS.fullmatch(attribute)]
    while reached:
        new = set(users.get(reached.pop(), ())) - found
        found |= new
        reached += new
    return frozenset(found)


def _converts(attribute: str, macros: Collection[str]) -> bool:
    return attribute in macros or _CONVERTS.fullmatch(attribute) is not None


def _attributes(line: str) -> tuple[str, Sequence[str]]:
    """The pattern of a line, which may be in quotes as C has them, and its attributes."""
    quoted = _QUOTED.match(line.strip())
    if quoted is None:
        pattern, *attributes = line.split()
        return pattern, attributes
    return _ESCAPE.sub(_meant, quoted[1]), quoted[2].split()


def _meant(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code, 8)) if code.isdigit() else code


def _names(pattern: str, path: str) -> bool:
    """Whether a pattern of gitignore names a file, or a folder around it.

    By sets of positions in the pattern, so that no pattern of a stranger's takes long.
    """
    whole = pattern.removesuffix("/")
    parts = whole.replace("[^", "[!").removeprefix("/").split("/")
    if "/" not in whole:
        parts = ["**", *parts]
    names = path.split("/")
    reached = {0}
    for name in names[:-1] if pattern.endswith("/") else names:
        reached = set(_after(reached, name, parts))
        if len(parts) in reached:
            return True
    return False


def _after(reached: Iterable[int], name: str, parts: Sequence[str]) -> Iterator[int]:
    """The positions in a pattern after another name of a path."""
    for start in reached:
        at = start
        while parts[at : at + 1] == ["**"]:
            yield at
            at += 1
        if at == len(parts):
            yield at
        elif fnmatchcase(name, parts[at]):
            yield at + 1
