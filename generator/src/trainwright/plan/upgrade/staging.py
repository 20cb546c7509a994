"""What a version of the tool makes of a repository, tried in a copy of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.layout import DEFAULTS, ENVIRONMENTS, environment_path, rendered_folder
from trainwright.datatypes.pointer import lookup
from trainwright.documents.yamlio import Document
from trainwright.files.tree import SCRATCH, Folder, Tree
from trainwright.plan.upgrade.model import Jobs, Outcome, Release
from trainwright.plan.upgrade.versions import CommandResult, Installed, UpgradeError
from trainwright.runs.folder import RenderedFolder
from trainwright.specs import files
from trainwright.specs.load import Reader
from trainwright.specs.select import Selection

_AT_ONCE = 500  # jobs that one command line names


def environment(scratch: Path, today: str) -> dict[str, str]:
    """Return the env in which processes leave no files behind and both find the same."""
    return {
        "GIT_CEILING_DIRECTORIES": str(scratch.resolve()),  # a copy is in no repository
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "TRAINWRIGHT_TODAY": today,
        "XDG_CACHE_HOME": str(scratch.resolve() / "cache"),
    }


def outcome(
    installed: Installed, root: Path, selected: tuple[Selection, ...], copy: Path
) -> Outcome:
    """Return what a version renders and finds, first with the existing runs, then without them.

    `copy` is a folder that is made for that.
    """
    copy_sources(root, copy)
    environments = tuple(selection.environment for selection in selected)
    begun = any((copy / rendered_folder(name)).exists() for name in environments)
    refused = dict(_over_runs(installed, selected, copy)) if begun else {}
    runs = rendered_sums(copy, environments) if begun else {}
    for name in environments:
        shutil.rmtree(copy / rendered_folder(name), ignore_errors=True)
    # Rendering comes first, since the check can reuse its cached results. If rendering fails, the
    # check tells which jobs can be rendered at all.
    rendered = _render(installed, copy, _words(selected)).code == 0
    findings = tuple(_check(installed, selected, copy))
    if not rendered:
        _next_runs(installed, selected, copy, findings)
    return Outcome(
        release=Release(installed.version, _chart(copy, environments)),
        runs=runs,
        next_runs=_texts(copy, environments),
        findings=findings,
        refused=refused,
    )


def copy_sources(root: Path, copy: Path) -> None:
    """Copy environments/, with links kept and special files left out, and the files of the
    repository that specs name, without links.
    """

    def special(folder: str, names: list[str]) -> Iterable[str]:
        tree = Folder(Path(folder))
        return {n for n in names if tree.kind(n) == "special" or n.startswith(SCRATCH)}

    try:
        shutil.copytree(root / ENVIRONMENTS, copy / ENVIRONMENTS, symlinks=True, ignore=special)
        _copy_named(root, copy)
    except (OSError, shutil.Error) as error:
        raise UpgradeError(f"{root / ENVIRONMENTS} cannot be copied: {error}") from error


def _copy_named(root: Path, copy: Path) -> None:
    reader = Reader(Folder(root))
    for source in dict.fromkeys(_named(reader)):
        inside = reader.repository_folder(source)
        if source.startswith(f"{ENVIRONMENTS}/"):
            for name in reader.tree.ignored(source) if inside is not None else ():
                _remove(copy / source / name)  # the copy is in no repository that ignores it
            continue
        for path in [source] if inside is None else [f"{source}/{name}" for name in inside]:
            raw = reader.repository_file(path)
            if isinstance(raw, bytes):
                (copy / path).parent.mkdir(parents=True, exist_ok=True)
                (copy / path).write_bytes(raw)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _named(reader: Reader) -> Iterator[str]:
    """Yield the files and folders of the repository that any layer of any job names.

    Documents are not validated: another version may accept what this one refuses.
    """
    for path in _specs(reader.tree):
        raw = reader.raw(path)
        # Most specs name no files, and parsing takes longest.
        document = reader.document(path) if isinstance(raw, bytes) and b"from" in raw else None
        if isinstance(document, Document):
            for layer in _partial_specs(document.data):
                yield from (source for _, source in files.named(layer))
        reader.forget(path)


def _specs(tree: Tree) -> Iterator[str]:
    yield DEFAULTS
    for folder in tree.entries(ENVIRONMENTS):
        inside = f"{ENVIRONMENTS}/{folder.name}/jobs"
        if folder.kind == "folder":
            yield environment_path(folder.name)
            jobs = tree.entries(inside) if tree.kind(inside) == "folder" else ()
            yield from (f"{inside}/{job.name}" for job in jobs if job.name.endswith(".yaml"))


def _partial_specs(data: Mapping[str, Data]) -> Iterator[Mapping[str, Data]]:
    """Yield a file's data, which may be a job spec, and the defaults in it and in its pools."""
    pools = data.get("pools")
    below = pools.values() if isinstance(pools, Mapping) else ()
    candidates = (data, *(lookup(holder, "/defaults") for holder in (data, *below)))
    return (spec for spec in candidates if isinstance(spec, Mapping))


def _over_runs(
    installed: Installed, selected: tuple[Selection, ...], copy: Path
) -> Iterator[tuple[str, str]]:
    """Render next to the existing runs; yield each environment that is refused, and why.

    Nothing is written while there are errors: so each environment apart, if there are any.
    """
    if _render(installed, copy, _words(selected)).code == 0:
        return
    for selection in selected:
        done = _render(installed, copy, _words((selection,)))
        if done.code:
            yield selection.environment, done.complaint


def _render(installed: Installed, copy: Path, words: Iterable[str]) -> CommandResult:
    return installed.run(copy, "-C", str(copy), "render", *words)


def _words(selected: Iterable[Selection]) -> list[str]:
    """Return the selection as command line arguments."""
    words: list[str] = []
    for selection in selected:
        jobs = map(str, selection.jobs)
        words += [selection.environment] if selection.whole else jobs
    return words


def _check(installed: Installed, selected: tuple[Selection, ...], copy: Path) -> Iterator[Finding]:
    words = ("-C", str(copy), "check", *_words(selected), "-o", "json")
    return _report(installed, installed.run(copy, *words))


def _report(installed: Installed, done: CommandResult) -> Iterator[Finding]:
    try:
        results: Data = json.loads(done.out)["report"]["results"]
        for result in results:
            yield _reported(result)
    except (ValueError, KeyError, TypeError) as error:
        message = f"trainwright {installed.version} check: a report of another format: {error!r}"
        raise UpgradeError(message) from error


def _reported(result: Data) -> Finding:
    place = result["place"]
    return Finding(
        rule=str(result["rule"]),
        severity=Severity(result["severity"]),
        place=Location(str(place["file"]), int(place["line"]), int(place["column"])),
        message=str(result["message"]),
        remedy=str(result.get("remedy", "")),
        subject=str(result.get("subject", "")),
        pointer=str(result.get("path") or result.get("pointer", "")),
    )


def _next_runs(
    installed: Installed,
    selected: tuple[Selection, ...],
    copy: Path,
    findings: tuple[Finding, ...],
) -> None:
    """Render the selected jobs that have no errors."""
    failing = {finding.subject for finding in findings if finding.severity is Severity.ERROR}
    # An error that is not about one job affects all jobs of the environment.
    broken = {subject for subject in failing if "/" not in subject}
    words: list[str] = []
    for selection in selected:
        if selection.environment in broken:
            continue
        sound = [str(job) for job in selection.jobs if str(job) not in failing]
        whole = selection.whole and len(sound) == len(selection.jobs)
        words += [selection.environment] if whole else sound
    unplaced = "" in broken  # an error of the whole repository, which says why nothing is rendered
    for start in range(0, len(words), _AT_ONCE):
        done = _render(installed, copy, words[start : start + _AT_ONCE])
        if done.code and not unplaced:
            message = f"trainwright {installed.version} renders nothing: {done.complaint}"
            raise UpgradeError(message)


def rendered_sums(root: Path, environments: Iterable[str]) -> Jobs:
    """SHA-256 sums of the rendered files of each job that has any, without records."""
    sums: dict[str, dict[str, str]] = {}
    for name in environments:
        for path, digest in RenderedFolder(Folder(root), name).hashes.items():
            job, slash, file = path.partition("/")
            if slash and file.endswith(".yaml"):
                sums.setdefault(f"{name}/{job}", {})[file] = digest
    return sums


def manifest_findings(
    installed: Installed, copy: Path, environments: Iterable[str]
) -> Iterator[Finding]:
    """Yield a version's findings in the manifests of a copy, whatever rendered them."""
    for name in environments:
        rendered = rendered_folder(name)
        if (copy / rendered).is_dir():
            words = ("-C", str(copy), "validate", rendered, "--env", name)
            yield from _report(installed, installed.run(copy, *words, "-o", "json"))


def _texts(root: Path, environments: Iterable[str]) -> Jobs:
    tree = Folder(root)
    return {
        job: {file: tree.read(_path(job, file)).decode(errors="replace") for file in sums}
        for job, sums in rendered_sums(root, environments).items()
    }


def _path(job: str, file: str) -> str:
    name, _, short = job.partition("/")
    return f"{rendered_folder(name)}/{short}/{file}"


def _chart(root: Path, environments: Iterable[str]) -> str:
    """Return the chart's version by the first record in a format known here; empty without one."""
    for name in environments:
        for record in RenderedFolder(Folder(root), name).records.values():
            return record.chart
    return ""
