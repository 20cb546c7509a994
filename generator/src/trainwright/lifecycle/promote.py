"""`promote`: move what works in one environment to another, which keeps what is its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile, environment_path
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.same import differences
from trainwright.documents import editing
from trainwright.documents.editing import EditError
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Edited, Tree
from trainwright.lifecycle.subject import Step, Subject, load
from trainwright.render.history import History
from trainwright.reports.values import value_line
from trainwright.specs.load import read_spec
from trainwright.specs.merge import BASE, merge


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping of a job of which some keys move, or all of them.

    If it is `owned`, the environment may have items of its own, in its defaults or its pools, which
    stay: only what the job's file and its bases say moves.
    """

    at: Pointer
    keys: tuple[str, ...] | None = None
    owned: bool = False


# What moves, by the name under which it is chosen.
GROUPS: dict[str, tuple[Part, ...]] = {
    "image": (Part(Pointer("/image"), ("repository", "tag", "digest")),),
    # Without its launcher or the commit of its code an entrypoint is another program.
    "entrypoint": (
        Part(Pointer("/entrypoint")),
        Part(Pointer("/code")),
        Part(Pointer(), ("launcher",)),
        Part(Pointer("/launcherOptions"), owned=True),
    ),
    "flags": (Part(Pointer("/flags")), Part(Pointer(), ("flagStyle",))),
    "files": (Part(Pointer("/files"), owned=True),),
}
_SHOWN = 6  # names of pools or queues
_OF_THE_FILE = ("apiVersion", "kind", "name", "extends", "description", "waivers", "run", "state")


def promote(
    tree: Tree,
    file: JobFile,
    history: History,
    to: str,
    only: tuple[str, ...],
    chosen: Mapping[str, str],
) -> Step:
    """Move the image, the code, its flags and its files to the same job of another environment.

    `chosen` are the pool and the queue to use there, where they are given.
    """
    source = load(tree, file, history)
    about = JobFile(to, file.name)
    begun = not tree.kind(about.path)
    if begun:
        tree = Edited(tree, {about.path: _begun(source, to)})
    target = load(tree, about, history, begun=begun)
    raw = target.raw
    for part in (part for name in GROUPS if not only or name in only for part in GROUPS[name]):
        raw = _moved(source, target.edited(raw), part)
    for key, name in chosen.items():
        if target.edited(raw).value(f"/{key}") != name:
            raw = editing.put(about.path, raw, Pointer.of(key), name)
    done = target.edited(raw)
    if missing := _missing(done):
        return Step(message=f"is not promoted: {missing}", refused=True)
    if done.environment.require_digest and not done.value("/image/digest"):
        message = f"needs a digest to run in {to}: `trainwright pin {file}` first"
        return Step(message=message, refused=True)
    notes = tuple(_differences(source, done))
    if begun or raw != target.raw:
        message = f"promoted to {to}"
        return Step(message=message, files={about.path: raw}, notes=notes, about=about)
    return Step(message=f"is in {to} as it is in {file.environment}", notes=notes)


def _missing(target: Subject) -> str:
    """Return which pool or queue its environment does not have, and how to use another; "" if none
    is missing.
    """
    environment, gpus = target.environment, target.value("/resources/gpu")
    pool, queue, name = target.value("/pool"), target.value("/queue"), environment.name
    pools = sorted(environment.pools.values(), key=lambda pool: bool(pool.resource) != bool(gpus))
    if pool not in environment.pools and (pool or gpus):
        lacks = f'{name} has no pool "{pool}"' if pool else f"its {gpus} GPUs need a pool of {name}"
        return f"{lacks}; {_remedy(target, 'pool', [pool.name for pool in pools])}"
    queues = environment.queues if environment.queueing in ("kueue", "volcano") else {}
    if queue and queues and queue not in queues:
        return f'{name} has no queue "{queue}"; {_remedy(target, "queue", [*queues])}'
    return ""


def _remedy(target: Subject, key: str, names: Sequence[str]) -> str:
    """Return how to have a pool or a queue that is missing: of the `names`, or else declared."""
    if not names:
        return f"declare it under `{key}s` in {environment_path(target.file.environment)}"
    line = f"`{key}: {names[0]}` into {target.file.path}"
    how = f"promote it with `--{key} {names[0]}`, which writes {line}"
    return f"it has {listed(names, _SHOWN)}: {how}"


def _begun(source: Subject, to: str) -> bytes:
    """Return the first file of a job that the environment lacks: it extends the base of both."""
    base = source.spec.layers[-1].data.get("extends", "")
    folder = base.partition("/")[0]
    if not base or source.tree.kind(environment_path(folder)):
        raise TrainwrightError(
            f"{to} has no job {source.file.name}, and it is not known what it shares with "
            f"{source.file}: move that to environments/base/jobs/{source.file.name}.yaml, let "
            f"{source.file.path} extend it, and promote again"
        )
    first = source.raw.decode().splitlines()[0]
    head = f"{first}\n" if first.startswith("# yaml-language-server:") else ""
    name = source.file.name
    lines = ("apiVersion: trainwright.io/v1alpha1", "kind: JobSpec", f"name: {name}")
    return (head + "\n".join((*lines, f"extends: {base}")) + "\n").encode()


def _moved(source: Subject, target: Subject, part: Part) -> bytes:
    """The target's file such that a part is effectively the source's."""
    wanted = _values(source, part)
    subject = _made(target, part.at, wanted, _values(target, part))
    if _values(subject, part) != wanted:
        raise EditError(
            f"{target.file.path}: {part.at.dotted} cannot be made what it is in the source"
        )
    return subject.raw


def _made(
    subject: Subject, at: Pointer, wanted: Mapping[str, Data], have: Mapping[str, Data]
) -> Subject:
    for key in [*have, *(key for key in wanted if key not in have)]:
        new, old = wanted.get(key), have.get(key)
        if key not in wanted:
            subject = _removed(subject, at / key)
        elif isinstance(new, dict) and isinstance(old, dict):
            subject = _made(subject, at / key, new, old)
        elif new != old:
            raw = editing.put(subject.file.path, subject.raw, at / key, new)
            subject = subject.edited(raw)
    return subject


def _removed(subject: Subject, pointer: str) -> Subject:
    """Return the subject without a value: dropped from its file, or null where inherited."""
    path = subject.file.path
    if subject.wrote(pointer):
        without = subject.edited(editing.drop(path, subject.raw, pointer))
        if without.value(pointer) is None:
            return without
    return subject.edited(editing.put(path, subject.raw, pointer, None))


def _values(subject: Subject, part: Part) -> Mapping[str, Data]:
    fields = _own(subject, part.at) if part.owned else subject.value(part.at)
    return {
        key: value
        for key, value in (fields or {}).items()
        if value is not None and (part.keys is None or key in part.keys)
    }


def _own(subject: Subject, at: Pointer) -> Data:
    """Return a value of the job's file over its bases, without what files that they name add."""
    texts = [
        (layer.document.file, subject.tree.read(layer.document.file))
        for layer in subject.spec.layers
        if layer.label == BASE
    ]
    documents = [read_spec(path, raw) for path, raw in (*texts, (subject.file.path, subject.raw))]
    said = (document.data for document in documents if isinstance(document, Document))
    return lookup(reduce(merge, said, {}), at)


def _differences(source: Subject, target: Subject) -> Iterator[str]:
    """Yield a line for each value that differs between the environments after the promotion."""
    here, there = source.file.environment, target.file.environment
    for path, source_value, target_value in sorted(differences(source.spec.data, target.spec.data)):
        about_values = not isinstance(source_value, dict) and not isinstance(target_value, dict)
        if about_values and source_value != target_value and path.parts[0] not in _OF_THE_FILE:
            shown = [
                "none" if value is None else value_line(path, value)
                for value in (source_value, target_value)
            ]
            yield f"{path.dotted}: {shown[0]} in {here}, {shown[1]} in {there}"
