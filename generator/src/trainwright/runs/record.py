"""The record of a run: one file beside its manifests, with what the run began with."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import field, replace
from typing import Literal

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import ORDERED
from trainwright.datatypes.layout import ENVIRONMENTS, JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.same import digest_of_data
from trainwright.documents.validation import schema
from trainwright.files.tree import Tree
from trainwright.runs import identity
from trainwright.specs.merge import merge

# Neither Argo CD nor Flux takes a file of this name for a manifest, as they would *.json.
RECORD_FILE = "run.lock"
VALUES_FILE = "values.yaml"
API_VERSION = "trainwright.io/v1alpha1"
_KIND = "Run"
_COMMENT = "What the run of {} began with. Written by Trainwright; do not edit."

State = Literal["active", "suspended", "cancelled", "finished"]
ENDED: tuple[State, ...] = ("cancelled", "finished")  # nothing is left to apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one run of a job began with, and what was rendered for it.

    `job` is the content of the job's own file when the run began, `inherited` that of the layers
    below it, `environment` the facts of its environment that decide rendered bytes, in the shape of
    environment.yaml. `files` are SHA-256 sums of the rendered files by name: none when the run is
    cancelled or finished. `objects` are those files' Kubernetes objects, as "group/Kind/name".
    `held` are operational fields in which the job's own file differs from `job`, and which the live
    object does not take. `source` is the SHA-256 of the job's own file: while it is the same,
    nothing has to be compared.

    `replaces` is the object of the run that this one replaced, on which its own name depends.
    `adopted` marks a run whose object existed before its job, and has a name of its own.
    `comment` names the job's file; it is empty in a record that was not read from one.
    """

    object: str
    target: str
    state: State
    trainwright: str  # versions that rendered it
    chart: str
    source: str
    job: Mapping[str, Data]
    inherited: Mapping[str, Data]
    environment: Mapping[str, Data]
    held: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    replaces: str = ""
    adopted: bool = False
    comment: str = field(default="", compare=False)

    def is_written_for(self, source: str) -> bool:
        """Whether it was written for the job of a file, by its path."""
        return self.comment in ("", _COMMENT.format(source))

    @property
    def environment_name(self) -> str:
        """The environment that it was written for; empty in a record that was not read from one."""
        path = self.comment.partition(f" {ENVIRONMENTS}/")[2]
        return path.partition("/")[0]

    def is_of(self, job: str) -> bool:
        """Whether this is the record of a run of the job, by the run's object name.

        An adopted object keeps its own name, and only the comment names its job.
        """
        if not self.adopted:
            return identity.is_of(job, self.object)
        return not self.comment or f"/jobs/{job}.yaml began with" in self.comment

    @property
    def spec(self) -> Mapping[str, Data]:
        """The effective spec that the run began with."""
        merged: Mapping[str, Data] = merge(self.inherited, self.job)
        return merged

    @property
    def run(self) -> int:
        """The number of the run, as `rerun` raises it."""
        return int(self.spec.get("run") or 1)

    @property
    def objects_by_kind(self) -> tuple[tuple[str, str], ...]:
        """The kind and the name of each object."""
        parts = (each.split("/")[-2:] for each in self.objects)
        return tuple((part[0], part[1]) for part in parts if len(part) > 1)

    def ended(self, state: State) -> Record:
        """Return the record of the run once nothing of it is left to apply."""
        return replace(self, state=state, held=(), files={}, objects=())


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run with its record, and its rendered files in the folder of a tree where they are kept.

    `intact` is whether each file is there as it was rendered, `here` whether they are where they
    belong, rather than only in git's history.
    """

    record: Record
    tree: Tree
    folder: str
    intact: bool
    here: bool = True

    def texts(self) -> dict[str, str]:
        """Return the files by name. Raise OSError for one that is missing."""
        read = {name: self.tree.read(f"{self.folder}/{name}") for name in self.record.files}
        return {name: raw.replace(b"\r\n", b"\n").decode() for name, raw in read.items()}


def objects(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Return rendered objects as a record lists them: "kubeflow.org/PyTorchJob/llm-1a2b3c4d"."""
    return tuple("/".join(filter(None, (m.identity[0], m.kind, m.name))) for m in manifests)


def path(file: JobFile) -> str:
    """Return where the record of a job's run is."""
    return f"{file.rendered}/{RECORD_FILE}"


def text(source: str, record: Record) -> str:
    """Return the record as JSON: people read it in reviews, and thousands are read in a second.

    `source` is the path of the job's own file.
    """
    data = {
        "$comment": _COMMENT.format(source),
        "apiVersion": API_VERSION,
        "kind": _KIND,
        "object": record.object,
        "target": record.target,
        "state": record.state,
        **({"replaces": record.replaces} if record.replaces else {}),
        **({"adopted": True} if record.adopted else {}),
        "renderedBy": {"trainwright": record.trainwright, "chart": record.chart},
        "source": record.source,
        "job": _sorted(record.job, ORDERED),
        "inherited": _sorted(record.inherited, ORDERED),
        "environment": _sorted(record.environment),
        **({"held": list(record.held)} if record.held else {}),
        "objects": list(record.objects),
        "files": dict(sorted(record.files.items())),
    }
    return json.dumps({**data, "digest": digest_of_data(data)}, indent=2, ensure_ascii=False) + "\n"


def _sorted(data: Data, ordered: Container[str] = ()) -> Data:
    """Return the data with sorted keys, so that the order people write them in changes nothing;
    keys below the `ordered` ones stay in order.
    """
    if isinstance(data, (dict, Mapping)):  # nearly all are dicts, the faster check
        return {
            key: {name: _sorted(item) for name, item in data[key].items()}
            if key in ordered and isinstance(data[key], Mapping)
            else _sorted(data[key])
            for key in sorted(data)
        }
    return [_sorted(item) for item in data] if isinstance(data, list | tuple) else data


def parse(raw: bytes) -> Record | None:
    """Return the record in a file, or None if it is not exactly what Trainwright wrote there.

    A record decides what keeps training: one that was edited, or merged line by line, is not
    trusted.
    """
    try:
        data: Data = json.loads(raw)
        if b"\\ud" in raw.lower():  # half a surrogate pair cannot be written again
            json.dumps(data, ensure_ascii=False).encode()
        if not schema.run_record().accepts(data):
            return None
        digest = data.pop("digest")
        return _record(data) if digest == digest_of_data(data) else None
    except (ValueError, RecursionError):
        return None


def _record(data: Data) -> Record:
    return Record(
        object=data["object"],
        target=data["target"],
        state=data["state"],
        trainwright=data["renderedBy"]["trainwright"],
        chart=data["renderedBy"]["chart"],
        source=data["source"],
        job=data["job"],
        inherited=data["inherited"],
        environment=data["environment"],
        held=tuple(data.get("held", ())),
        objects=tuple(data["objects"]),
        files=data["files"],
        replaces=data.get("replaces", ""),
        adopted=data.get("adopted", False),
        comment=data.get("$comment", ""),
    )
