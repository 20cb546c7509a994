"""Import of a whole input: everything is converted, then written. Only this module writes files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.errors import OutputError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import RUNTIMES
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.files import filetree
from trainwright.files.tree import Folder
from trainwright.importing import ImportInput, text
from trainwright.importing.convert import Imported, convert, job_name
from trainwright.importing.live import refuse_live
from trainwright.importing.placeholders import refuse_unfilled
from trainwright.importing.reader import with_entrypoint, with_image
from trainwright.importing.source import Source
from trainwright.importing.trial import ImportContext
from trainwright.kinds.reading import ImportingError, Loss
from trainwright.tasks import progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How to import: see `trainwright import --help`."""

    environment: str
    entrypoint: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    name: str = ""
    force: bool = False
    write: bool = True
    new_runs: bool = False  # of what is in a cluster, too


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """What was imported, and why the rest was not."""

    imported: tuple[Imported, ...]
    problems: tuple[str, ...]

    @property
    def broken(self) -> tuple[Imported, ...]:
        """The imported workloads whose runs cannot start, or would train something else."""
        return tuple(done for done in self.imported if done.severity is Loss.CANNOT_RUN)


def run(root: Path, inputs: ImportInput, options: ImportOptions) -> ImportBatch:
    """Convert all workloads, then write all that could be converted.

    Raise ImportingError if there is nothing to import, SelectionError and SourceError if the
    environment is not usable.
    """
    if not inputs.sources and not inputs.problems and not inputs.findings:
        raise ImportingError(_nothing(inputs))
    if options.name and len(inputs.sources) > 1:
        raise ImportingError(f"--name is for one workload, and there are {len(inputs.sources)}")
    tree = Folder(root)
    place = ImportContext(tree, options.environment)
    imported: list[Imported] = []
    problems: list[str] = []
    for source in progress.counted(inputs.sources, len(inputs.sources), "workloads"):
        try:
            if not options.new_runs:
                refuse_live(source)
            done = converted(source, place, options)
            refuse_taken(tree, done, imported, options)
            imported.append(done)
        except ImportingError as error:
            problems.append(str(error))
    if options.write and imported:
        _write(tree, {done.file.path: text.spec(done).encode() for done in imported}, options)
    return ImportBatch(tuple(imported), tuple(problems))


def _nothing(inputs: ImportInput) -> str:
    """Return the message that there is no training workload, with what the input has instead."""
    others = ", ".join(dict.fromkeys(f"{left.field} ({left.why})" for left in inputs.beside))
    return f"no training workload found in the input{f': it holds {others}' if others else ''}"


def converted(source: Source, place: ImportContext, options: ImportOptions) -> Imported:
    """Return a workload converted, with the name, image and entrypoint of the options."""
    if options.entrypoint:
        source = with_entrypoint(source, options.entrypoint)
    if options.image:
        source = with_image(source, options.image)
    refuse_unfilled(source)
    name = job_name(options.name or source.name)
    there = replace(
        place, runtimes=tuple(m for m in source.manifests() if m.group_kind in RUNTIMES)
    )
    return convert(replace(source, name=name), there, options.pool)


def refuse_taken(
    tree: Folder, done: Imported, others: Iterable[Imported], options: ImportOptions
) -> None:
    """Raise ImportingError if the file of a spec is there, another one's, or behind a link."""
    path = done.file.path
    if any(other.file == done.file for other in others):
        raise ImportingError(f"{path} is another workload's already: import one of them by --name")
    if options.write and not options.force and tree.kind(path):
        raise ImportingError(
            f"{path} is there already: name it otherwise by --name, or use --force"
        )
    folders = [path.rpartition("/")[0], path.rsplit("/", 2)[0]]
    if any(tree.kind(inside) == "link" for inside in (path, *folders)):
        raise ImportingError(
            f"{path} is or lies behind a symbolic link, which could lead elsewhere"
        )


def _write(tree: Folder, specs: Mapping[str, bytes], options: ImportOptions) -> None:
    """Write all specs. Existing files are replaced only with `force`. Raise OutputError."""
    taken = [path for path in specs if options.force and tree.kind(path)]
    try:
        before = {path: tree.read(path) for path in taken}
    except OSError as error:
        raise OutputError(f"cannot read {error.filename}: {error.strerror}") from error
    filetree.write(tree.root, ENVIRONMENTS, specs, before)
