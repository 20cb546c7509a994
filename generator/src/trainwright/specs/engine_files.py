"""Files beside the rendered ones by which a GitOps engine changes or omits what it applies, or by
which a forge hides changes from reviewers.

Argo CD merges `.argocd-source*.yaml` into the source of an application, and takes a folder for a
chart by a name that ends with Chart.yaml:
https://argo-cd.readthedocs.io/en/stable/user-guide/parameters/#store-overrides-in-git,
https://github.com/argoproj/argo-cd/blob/master/util/app/discovery/discovery.go
Kustomize refuses a folder with two kustomizations. Flux leaves out what a `.sourceignore` of any
folder names: https://github.com/fluxcd/pkg/blob/main/sourceignore/sourceignore.go
Argo CD clones with git, which converts files as `.gitattributes` says when it checks them out.
The same file makes GitHub and GitLab hide a diff, or fold it:
https://docs.github.com/en/repositories/working-with-files/managing-files/customizing-how-changed-files-appear-on-github,
https://docs.gitlab.com/user/project/merge_requests/changes/#collapse-generated-files
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial

from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import (
    ENVIRONMENTS,
    RENDERED,
    JobFile,
    environment_path,
    rendered_folder,
)
from trainwright.documents.validation import schema
from trainwright.files.entry import above
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx

_IGNORE, _ATTRIBUTES = ".sourceignore", ".gitattributes"
_READ_BY_NAME = {
    r"\.argocd-source.*\.yaml": "Argo CD merges {name} into the source: it can replace images, "
    "rename runs and patch them",
    r"kustomization\.yml|Kustomization": "kustomize refuses a folder with kustomization.yaml and "
    "{name}: nothing is applied",
    r".*Chart\.yaml": "Argo CD takes a folder with {name} for a Helm chart",
}
# The files of a run, and the list of runs; a pattern that matches none of these matches no other.
_FILES = ("kustomization.yaml", "{job}/{job}.yaml", "{job}/{target}.yaml", "{job}/values.yaml")
# Attributes by which git writes other bytes than are committed:
# https://git-scm.com/docs/gitattributes
_MACRO = "[attr]"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"(.*)')
_SPECIAL = re.compile(r"[*?\[]")
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|.)")
_CONVERTS = re.compile(r"(?:filter|working-tree-encoding)=.+|ident|eol=crlf")
_HIDES = re.compile(r"-diff|binary|(?:linguist|gitlab)-generated(?:=true)?")
_SHOWS = re.compile(
    r"[!-]binary|!?diff|diff=.+|[!-](?:linguist|gitlab)-generated|.+-generated=false"
)


def findings(tree: Tree, jobs: Mapping[str, Sequence[JobFile]]) -> Iterator[Finding]:
    """Yield a finding for each file that changes what an engine makes of the rendered files."""
    rendered = {
        rendered_folder(name): [file.name for file in files] for name, files in jobs.items()
    }
    there = {folder: names for folder, names in rendered.items() if tree.kind(folder) == "folder"}
    for folder in there:
        yield from _by_name(tree, folder)
    around = {upper for folder in there for upper in ("", *above(folder), folder)}
    converted = partial(_converted, _macros(tree, _CONVERTS))
    for folder in sorted(around):
        start = f"{folder}/" if folder else ""
        for name, judged in ((_IGNORE, _ignored), (_ATTRIBUTES, converted)):
            if lines := tuple(_lines(tree, f"{start}{name}")):
                files = [file for file in _files(there) if file.startswith(start)]
                yield from judged(lines, start, files)


def hidden(tree: Tracked, jobs: Mapping[str, Sequence[JobFile]]) -> Iterator[Finding]:
    """Yield `.gitattributes` lines that hide changes of specs or manifests from reviewers."""
    macros = _macros(tree, _HIDES)
    for folder in sorted(_folders(tree, jobs)):
        start = f"{folder}/" if folder else ""
        settings = [*_settings(tree, start, macros)]
        reviewed = _reviewed(jobs) if settings else ()  # there are none in nearly all folders
        inside = [file.removeprefix(start) for file in reviewed if file.startswith(start)]
        for number, setting in enumerate(settings):
            later = [other.pattern for other in settings[number + 1 :] if other.undoes(setting)]
            if not setting.shows and (file := _first(setting.pattern, later, inside)):
                message = f"{setting.attribute} hides changes of {start}{file} from reviewers"
                yield dx.HIDDEN_FROM_REVIEW.at(setting.place, message)


def _folders(tree: Tracked, jobs: Iterable[str]) -> Iterator[str]:
    """The folders whose `.gitattributes` are about specs or manifests.

    Each run has a folder of its own: those are taken from a list of all that is rendered.
    """
    yield from ("", ENVIRONMENTS)
    for name in jobs:
        folder = f"{ENVIRONMENTS}/{name}"
        yield from (folder, f"{folder}/jobs", f"{folder}/{RENDERED}")
        for file in tree.files(f"{folder}/{RENDERED}"):
            if file.endswith(f"/{_ATTRIBUTES}"):
                yield f"{folder}/{RENDERED}/{file.rpartition('/')[0]}"


@dataclass(frozen=True, slots=True)
class _Setting:
    """An attribute that makes a forge hide or show the diffs of files that match a pattern."""

    place: Location
    pattern: str
    attribute: str

    @property
    def shows(self) -> bool:
        return _SHOWS.fullmatch(self.attribute) is not None

    def undoes(self, earlier: _Setting) -> bool:
        generated = ["-generated" in setting.attribute for setting in (self, earlier)]
        return self.shows and generated[0] == generated[1]


def _settings(tree: Tree, start: str, macros: Collection[str]) -> Iterator[_Setting]:
    for place, line in _lines(tree, f"{start}{_ATTRIBUTES}"):
        pattern, attributes = _attributes(line)
        if pattern.endswith("/"):  # which names folders, and no file in them
            continue
        for name in attributes:
            if name in macros or _HIDES.fullmatch(name) or _SHOWS.fullmatch(name):
                yield _Setting(place, pattern, name)


def _reviewed(jobs: Mapping[str, Sequence[JobFile]]) -> Iterator[str]:
    """The files that reviewers have to see: specs, and manifests."""
    for name, files in jobs.items():
        yield environment_path(name)
        yield from (file.path for file in files)
    folders = {rendered_folder(name): [f.name for f in jobs[name]] for name in jobs}
    yield from (file for file in _files(folders) if not file.endswith("/values.yaml"))


def _first(pattern: str, later: Sequence[str], files: Sequence[str]) -> str:
    """Return the first file that this pattern matches and no later one does, or "" for none.

    Most patterns are about other folders or names, which is seen without a look at each file.
    """
    first, *_, last = f"{pattern.removeprefix('/')}/{pattern}".rstrip("/").split("/")
    if "/" in pattern.rstrip("/") and not _any(first, (file.partition("/")[0] for file in files)):
        return ""
    if not _SPECIAL.search(last) and not any(last in file for file in files):
        return ""
    named = (file for file in files if _names(pattern, file))
    return next((file for file in named if not any(_names(it, file) for it in later)), "")


def _any(pattern: str, names: Iterable[str]) -> bool:
    return pattern == "**" or any(fnmatchcase(name, pattern) for name in {*names})


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
    """Yield the lines of a small file except blanks and comments; none if there is no such file."""
    if tree.kind(path) == "file":
        with suppress(OSError, SourceError):
            text = tree.read(path).decode("utf-8-sig", "replace")
            for number, line in enumerate(text.splitlines(), 1):
                if line.strip() and not line.startswith("#"):
                    yield Location(path, number), line


def _ignored(
    lines: Iterable[tuple[Location, str]], start: str, files: Sequence[str]
) -> Iterator[Finding]:
    """Yield a finding for each line by which Flux leaves out a file; the last match decides."""
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
    """Yield a finding for each line by which git checks out other bytes than those rendered."""
    for place, line in lines:
        pattern, attributes = _attributes(line)
        converting = next((it for it in attributes if _converts(it, macros)), None)
        names = (file for file in files if _names(pattern, file.removeprefix(start)))
        if converting and (file := next(names, "")):
            message = f"Argo CD applies {file} as {converting} makes it, and not as it was rendered"
            yield dx.ENGINE_FILE.at(place, message)


def _macros(tree: Tree, meant: re.Pattern[str]) -> frozenset[str]:
    """Return the macros that set one of the `meant` attributes, directly or through other macros,
    as the .gitattributes at the top defines them.
    """
    users: dict[str, list[str]] = {}
    for _, line in _lines(tree, _ATTRIBUTES):
        first, *attributes = line.split()
        for attribute in attributes if first.startswith(_MACRO) else ():
            users.setdefault(attribute, []).append(first.removeprefix(_MACRO))
    macros = set[str]()
    reached = [attribute for attribute in users if meant.fullmatch(attribute)]
    while reached:
        new = set(users.get(reached.pop(), ())) - macros
        macros |= new
        reached += new
    return frozenset(macros)


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
