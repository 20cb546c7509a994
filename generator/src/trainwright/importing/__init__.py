"""Import of existing manifests and command lines as job specs, with an account of what is lost.

How objects of a kind are read is in `import_.py` of its folder; a new command needs a module, its
options in options.yaml, and a line here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import dropwhile, islice
from pathlib import Path

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.groupkind import PODGROUPS, RUNTIMES, SERVICE
from trainwright.documents.yamlio import Document
from trainwright.findings import diagnostics as dx
from trainwright.importing import (
    as_it_is,
    docker,
    elasticdl,
    foreign,
    generated,
    pasted,
    placeholders,
    services,
    slurm,
    workflows,
)
from trainwright.importing.commandline import CommandReader, Line, lines
from trainwright.importing.reader import source_of, with_beside
from trainwright.importing.source import Source
from trainwright.kinds import KINDS, SERVED
from trainwright.kinds.reading import ImportingError, NotImported, SourceObject, shown
from trainwright.manifests import reading
from trainwright.manifests.unrendered import Whole, gather

COMMANDS: tuple[CommandReader, ...] = (*docker.COMMANDS, elasticdl.COMMAND)

# What operators or targets make themselves, so that it is not missed.
_REPLACED = {
    SERVICE: "the operator or the target makes the services of a run",
    **dict.fromkeys(PODGROUPS, "the target makes it when the spec requests a gang"),
    **dict.fromkeys(RUNTIMES, "a run brings a runtime of its own"),
    **dict.fromkeys(
        workflows.KINDS,
        "no step that is written in it starts a training: keep applying it as it is",
    ),
}


class ImportInput:
    """The contents of files: workloads to import, objects next to them, and what cannot be read.

    `values` are the values of placeholders in manifests, by name. With `whole`, an object that
    contains others is not unwrapped, and so its kind is not one that is read.
    """

    def __init__(self, values: Mapping[str, str] | None = None, *, whole: bool = False) -> None:
        self._values = values or {}
        self._whole = whole
        self.sources: list[Source] = []
        self.beside: list[NotImported] = []
        self.findings: list[Finding] = []
        self.problems: list[str] = []
        self._refused: set[int] = set()  # by the identity of their bodies

    def commands(self, file: str, text: str) -> None:
        """Take the command lines of a text, or the one training that it starts in no image."""
        text = pasted.commands_of(text)
        given: list[Line] = []
        with self._noted():
            for line in lines(file, text):  # what stands above an open quote is taken
                given.append(line)
        if not any(_reader(line.words) for line in given) and any(map(_starts, given)):
            with self._noted():
                self.sources.append(slurm.read(file, text, self._values))
            return
        for line in given:
            with self._noted():
                self._command(line)

    def _command(self, line: Line) -> None:
        """Take a command line. Raise ImportingError if it starts something else than a training."""
        reader = _reader(line.words)
        if reader:
            source = reader.read(line)
            left = (left for left in line.left if left.field != "sudo")  # of the client alone
            self.sources.append(replace(source, left=(*source.left, *left)))
        elif slurm.is_harmless(line.words):
            said = shown("", " ".join(line.words[1:]))
            name, why = line.words[0], "it starts no training"
            self.beside.append(NotImported(name, line.place, said, why))
        else:
            why = "is not a command that starts training"
            raise ImportingError(f"{line.place}: {_called(line)} {why}")

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note why something cannot be imported, and go on."""
        try:
            yield
        except ImportingError as error:
            self.problems.append(str(error))

    def files(self, paths: tuple[str, ...]) -> None:
        """Take the manifests, compose files and command lines of files and folders."""
        self.take(self.read(paths))

    def read(self, paths: tuple[str, ...]) -> list[SourceObject]:
        """Return the objects in files and folders. Command lines and scripts are taken at once."""
        parts: list[SourceObject] = []
        gathered = gather(tuple(_with_scripts(paths)), named_templates=True)
        self.beside += map(_not_rendered, gathered.wholes)
        for source in gathered.manifests:
            text = source.raw.decode(errors="replace").removeprefix("\ufeff")
            if slurm.is_script(source.raw):
                with self._noted():
                    self.sources.append(slurm.read(source.file, text, self._values))
                continue
            documents = [d for chunk in reading.split(source) for d in reading.documents(chunk)]
            objects = [d for d in documents if isinstance(d, Document)]
            if not any(_is_object(o.data) for o in objects) and _holds_commands(source.file, text):
                self.commands(source.file, text)
                continue
            if not objects and _is_script(source.file, text):
                why = "no command in it starts a training: import the file that it applies or runs"
                self.problems.append(f"{source.file}:1: {why}")
                continue
            for document in documents:
                if isinstance(document, Document):
                    parts += self._parts(document)
                else:
                    self.findings += document
        return parts

    def take(self, parts: Sequence[SourceObject]) -> None:
        """Take objects, each with all the others as objects that may belong to it."""
        for part in parts:
            self._take(part, [other for other in parts if other is not part])
        self._say_beside(parts)

    def _take(self, part: SourceObject, others: Sequence[SourceObject]) -> None:
        """Take an object as the workloads that it is, or refuse it."""
        for whole in KINDS.values():
            if whole.reader.is_file(part.body):
                with self._noted():  # a file may have several jobs
                    inside = whole.reader.inside(part)
                    self.sources += [source_of(whole, o, (), name) for name, o in inside]
                return
        kind = SERVED.get(part.group_kind)
        if kind is None:
            self._refuse(part)
            return
        metadata = part.metadata
        name = str(metadata.get("name") or metadata.get("generateName") or "job")
        try:
            self.sources.append(with_beside(source_of(kind, part, others, name), others))
        except ImportingError as error:
            self._leave(part, error)

    def _leave(self, part: SourceObject, error: ImportingError) -> None:
        """Take an object unchanged that no spec can express, if that is wanted; else refuse it."""
        if self._whole and as_it_is.is_adoptable(part):
            self.sources.append(as_it_is.source(part, str(error)))
        else:
            self.problems.append(str(error))
            self._refused.add(id(part.body))

    def _parts(self, document: Document) -> Iterator[SourceObject]:
        """Yield the objects of a document, with their placeholders filled in."""
        for item in reading.objects(document.data):
            if not isinstance(item.body, Mapping):
                message = "neither an object nor a command that starts training"
                self.findings.append(dx.SHAPE.at(document.place(item.prefix), message))
                continue
            place = partial(_placed, document, item.prefix)
            part = SourceObject(body=item.body, place=place)
            try:
                filled = placeholders.filled(part, self._values)
                yield from (filled,) if self._whole else foreign.unwrapped(filled)
            except ImportingError as error:
                self.problems.append(str(error))
                self._refused.add(id(part.body))

    def _refuse(self, part: SourceObject) -> None:
        try:
            foreign.refuse(part, servers=self._whole and as_it_is.is_adoptable(part))
        except ImportingError as error:
            self._leave(part, error)

    def _say_beside(self, parts: Sequence[SourceObject]) -> None:
        used = {id(used.body) for source in self.sources for used in source.parts}
        for part in parts:
            kind = part.group_kind
            if kind in SERVED or _is_file(part.body) or id(part.body) in used | self._refused:
                continue
            field = f"{kind.kind or 'document'}/{part.metadata.get('name', '')}"
            self.beside.append(NotImported(field, part.place(""), "", _why_beside(part, parts)))


_SCRIPTS = ("*.sh", "*.slurm", "*.sbatch", "*.batch", "*.job", "*.sub")


def _with_scripts(paths: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths, and the batch scripts below folders among them."""
    for path in paths:
        folder = Path(path)
        scripts = [
            str(file)
            for pattern in _SCRIPTS
            for file in sorted(folder.rglob(pattern) if folder.is_dir() else ())
            if file.is_file() and slurm.is_script(file.read_bytes())
        ]
        if not scripts or any(folder.rglob("*.y*ml")) or any(folder.rglob("*.json")):
            yield path
        yield from scripts


def _not_rendered(whole: Whole) -> NotImported:
    """Return the entry for files of a chart or a kustomization, which are not manifests yet."""
    why = f"its manifests are yet to be rendered: `{whole.command} | trainwright import -`"
    return NotImported(whole.title(), Location(whole.file, 1), "", why)


def _reader(words: tuple[str, ...]) -> CommandReader | None:
    return next((c for c in COMMANDS if words[: len(c.begins)] == c.begins), None)


def _called(line: Line) -> str:
    """Return the program of a command line, with the verb of one that has several."""
    programs = {reader.begins[0] for reader in COMMANDS}
    return " ".join(line.words[: 2 if line.words[0] in programs else 1])


def _holds_commands(file: str, text: str) -> bool:
    """Whether the first command of a text starts training, or anything in a script or in what was
    pasted from a terminal does.
    """
    shown_commands = pasted.commands_of(text)
    commands = lines("", shown_commands)
    if text == shown_commands and not _is_script(file, text):
        commands = islice(dropwhile(_prepares, commands), 1)
    try:
        return any(map(_starts, commands))
    except ImportingError:
        return False


def _is_script(file: str, text: str) -> bool:
    return text.startswith("#!") or file.endswith(".sh")


def _starts(line: Line) -> bool:
    return _reader(line.words) is not None or slurm.starts_training(line.words)


def _prepares(line: Line) -> bool:
    return slurm.prepares(line.words) and not _starts(line)


def _is_object(body: Data) -> bool:
    """Whether a document is meant for a cluster, or another file that is imported."""
    return _is_file(mapping(body)) or bool({"apiVersion", "kind"} & mapping(body).keys())


def _why_beside(part: SourceObject, parts: Sequence[SourceObject]) -> str:
    """Return what happens with an object that is no training, or what to do with it."""
    is_reached = part.group_kind == SERVICE and not services.is_of_run(part, parts)
    if part.group_kind in _REPLACED and not is_reached:
        return _REPLACED[part.group_kind]
    run_label = next(filter(generated.is_generated, services.selector(part)), "")
    if run_label:
        return (
            f"it selects pods by {run_label}, which another run has otherwise: select them by "
            "a label of podLabels, and keep applying it"
        )
    if not part.group_kind.kind:
        return (
            "it is neither an object of a cluster nor a compose file: import the command that it "
            "starts with --command"
        )
    return "it is not a training workload: keep applying it as it is"


def _is_file(body: Mapping[str, Data]) -> bool:
    """Whether it is a file of a kind that no API server has."""
    return any(kind.reader.is_file(body) for kind in KINDS.values())


def _placed(document: Document, prefix: str, pointer: str) -> Location:
    return document.place(f"{prefix}{pointer}")
