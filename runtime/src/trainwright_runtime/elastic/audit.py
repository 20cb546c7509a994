"""The log of committed records, and the proof that each was trained exactly once per epoch.

Each replica writes its own file: a line before it contributes to a step and a line when it commits
one. Commits are linked by digests into a lineage: a step that only a dying worker committed
is in no worker's weights and not in the lineage of the last commit, and does not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright_runtime.coordination.rules import generation
from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.source import Share

VERSION = 1
Line = dict[str, Any]

_encode = json.JSONEncoder(separators=(",", ":")).encode


class AuditLog:
    """The audit log of one replica: appends to a file in `directory`; without one it does nothing.

    A share is on its way to the disk when `share` returns: others may commit it though this worker
    is killed. A commit may wait for the next share, since a worker that is killed before it takes
    the commit's weights along; a program that keeps these elsewhere calls `flush` first.
    """

    def __init__(self, directory: Path | None, replica: str) -> None:
        self._path: Path | None = None
        self._file = None
        self._waiting = b""
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            # A new file for each life of a worker: the last line of a killed one may be half.
            self._path = directory / f"{replica}-{os.getpid()}-{time.time_ns()}.jsonl"
            self._file = self._path.open("ab", buffering=0)

    def start(self, datasets: Mapping[str, Mapping[str, Any]]) -> None:
        """Log the datasets, each as its source describes it (see `Source.describe`)."""
        self._add({"kind": "start", "version": VERSION, "datasets": datasets})
        self.flush()

    def share(self, step: int, members: Members, share: Share) -> None:
        """Log the records that this replica is about to contribute to a step."""
        self._add(
            {
                "kind": "share",
                "step": step,
                "quorum": members.quorum,
                "rank": members.rank,
                "world": members.world,
                "unit": share.unit,
                "first": share.first,
                "last": share.last,
                "ended": share.ended,
                "digest": share.digest,
            }
        )
        self.flush()

    def commit(self, line: Line) -> None:
        """Log a committed step, by the line that `Progress.commit` returns for it."""
        self._add({"kind": "commit", **line})

    def end(self, lineage: str, step: int, epochs: int) -> None:
        """Log that the program's end has run, and on which lineage; also possible after `close`."""
        if self._path is not None:
            line = {"kind": "end", "lineage": lineage, "step": step, "epochs": epochs}
            with self._path.open("ab") as file:
                file.write(_encode(line).encode() + b"\n")

    def flush(self) -> None:
        """Write all waiting lines in a single write: a kill between two may leave half a line."""
        if self._file is not None:
            self._file.write(self._waiting)
            self._waiting = b""

    def close(self) -> None:
        if self._file is not None:
            self.flush()
            self._file.close()

    def _add(self, line: Line) -> None:
        if self._file is not None:
            self._waiting += _encode(line).encode() + b"\n"


def descend(parent: str, step: int, members: Members, dataset: str, epoch: int) -> str:
    """Return the lineage after a step: a digest of the one before, the step and its quorum."""
    text = f"{parent}:{step}:{members.quorum}:{members.world}:{dataset}:{epoch}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(slots=True)
class Verdict:
    """What the logs prove. `problems` is empty when every record counts exactly once."""

    steps: int = 0
    records: int = 0
    abandoned: int = 0
    """Commits that are in no worker's weights."""
    lost: list[str] = field(default_factory=list)
    """Places where training restarted without steps that had been committed before."""
    epochs: dict[str, int] = field(default_factory=dict)
    """Dataset -> epochs that are complete."""
    problems: list[str] = field(default_factory=list)


def verify(directory: Path) -> Verdict:
    """Return what a folder's logs prove about the lineage that training ended with or is in."""
    lines = list(_read(directory))
    verdict = Verdict()
    commits = {line["lineage"]: line for line in lines if line["kind"] == "commit"}
    starts = [line for line in lines if line["kind"] == "start"]
    if not commits or not starts:
        verdict.problems.append(f"{directory}: no committed step in any *.jsonl")
        return verdict
    lineage = _lineage(_last(lines, commits, verdict), commits, verdict)
    verdict.steps = len(lineage)
    verdict.lost = list(_lost(lineage, commits.values()))
    verdict.abandoned = len(commits) - len(lineage)
    shares = _shares(lines)
    counted: dict[tuple[str, int], dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for commit in lineage:
        for share in _contributions(commit, shares, verdict):
            counted[commit["dataset"], commit["epoch"]][share["unit"]].append(share)
            verdict.records += share["last"] - share["first"]
    last = lineage[-1]["epoch"] if lineage else 0
    for (dataset, epoch), units in sorted(counted.items()):
        describe = starts[-1]["datasets"][dataset]
        missing = list(_gaps(dataset, epoch, units, describe))
        if not missing:
            verdict.epochs[dataset] = verdict.epochs.get(dataset, 0) + 1
        elif epoch != last or any("twice" in problem for problem in missing):
            verdict.problems += missing
    return verdict


def _read(directory: Path) -> Iterator[Line]:
    for path in sorted(directory.glob("*.jsonl")):
        for text in path.read_bytes().split(b"\n")[:-1]:  # a killed writer's last line may be half
            yield json.loads(text)


def _last(lines: Iterable[Line], commits: Mapping[str, Line], verdict: Verdict) -> Line:
    """Return the commit that training ended with, or has reached.

    That is not always the one with the most steps: an abandoned lineage may be longer.
    """
    ends = {line["lineage"] for line in lines if line["kind"] == "end"}
    if len(ends) > 1:
        verdict.problems.append(f"training ended {len(ends)} times: {', '.join(sorted(ends))}")
    for lineage in ends - commits.keys():
        verdict.problems.append(f"training ended with commit {lineage}, which is in no file")
    candidates = [commits[lineage] for lineage in ends & commits.keys()] or commits.values()
    return max(candidates, key=lambda commit: (_generation(commit), commit["step"]))


def _generation(commit: Line) -> int:
    return generation(commit.get("generation", ""))


def _lost(chain: Sequence[Line], commits: Iterable[Line]) -> Iterator[str]:
    """Yield the committed steps that were lost when a later generation of the chain began."""
    steps: dict[int, int] = {}
    for commit in commits:
        steps[_generation(commit)] = max(steps.get(_generation(commit), -1), commit["step"])
    before = 0
    for commit in chain:
        current, step = _generation(commit), commit["step"]
        # The checkpoint that the generation began from may hold all steps that were committed.
        committed = max((steps[g] + 1 for g in steps if before <= g < current), default=0)
        if committed > step:
            yield f"{committed - step} steps after step {step}"
        before = current


def _lineage(last: Line, commits: Mapping[str, Line], verdict: Verdict) -> list[Line]:
    """Return the chain of commits that ends with `last`, oldest first."""
    at: Line | None = last
    chain = []
    while at is not None:
        chain.append(at)
        parent = at["parent"]
        if parent and parent not in commits:
            verdict.problems.append(
                f"step {at['step']}: the commit before it, {parent}, is in no file"
            )
        at = commits.get(parent)
    return chain[::-1]


def _shares(lines: Iterable[Line]) -> dict[tuple[int, int, int], dict[int, Line]]:
    shares: dict[tuple[int, int, int], dict[int, Line]] = defaultdict(dict)
    for line in lines:
        if line["kind"] == "share":
            shares[line["step"], line["quorum"], line["world"]][line["rank"]] = line
    return shares


def _contributions(
    commit: Line, shares: Mapping[tuple[int, int, int], Mapping[int, Line]], verdict: Verdict
) -> Iterator[Line]:
    """Yield the shares that a commit consists of; note what does not fit together."""
    world = commit["world"]
    given = shares.get((commit["step"], commit["quorum"], world), {})
    for rank in range(world):
        if rank not in given:
            verdict.problems.append(f"step {commit['step']}: no line of rank {rank} of {world}")
        elif given[rank]["last"] > given[rank]["first"] or given[rank]["ended"]:
            yield given[rank]
    total = sum(share["last"] - share["first"] for share in given.values())
    if total != commit["records"]:
        verdict.problems.append(
            f"step {commit['step']}: {commit['records']} records committed, {total} contributed"
        )


def _gaps(
    dataset: str, epoch: int, units: Mapping[str, list[Line]], describe: Mapping[str, Any]
) -> Iterator[str]:
    """Yield which records of an epoch are missing or repeated, unit by unit."""
    for unit in describe.get("shards", [""]):
        where = f"{dataset}, epoch {epoch}" + (f", shard {unit}" if unit else "")
        position = 0
        spans = sorted(units.get(unit, ()), key=lambda share: (share["first"], share["last"]))
        for share in spans:
            if share["first"] > position:
                yield f"{where}: records {position} to {share['first']} missing"
            elif share["first"] < position:
                yield f"{where}: records {share['first']} to {position} trained twice"
            position = max(position, share["last"])
        if "records" in describe:
            if position < describe["records"]:
                yield f"{where}: records {position} to {describe['records']} missing"
            yield from _wrong_records(where, epoch, spans, describe)
        elif not any(share["ended"] for share in spans):
            yield f"{where}: its end was not reached"


def _wrong_records(
    where: str, epoch: int, spans: Sequence[Line], describe: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the shares whose records are not those at their positions in the epoch's order."""
    import zlib

    import torch

    from trainwright_runtime.elastic.cursor import permutation

    if "sampler" in describe:  # the program's own sampler, which is unknown here
        return
    order = (
        permutation(describe["records"], describe["seed"], epoch)
        if describe["shuffle"]
        else torch.arange(describe["records"])
    )
    for share in spans:
        digest = zlib.crc32(order[share["first"] : share["last"]].numpy().tobytes())
        if digest != share["digest"]:
            yield f"{where}: other records than the order has at {share['first']}: twice or never"


def main(argv: Sequence[str]) -> int:
    """Print what the audit logs of a folder prove; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        prog="trainwright_runtime audit",
        description="Prove from audit logs that each record was trained exactly once per epoch.",
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--epochs", type=int, default=0, help="complete epochs there must be")
    options = parser.parse_args(argv)
    verdict = verify(options.directory)
    for dataset, epochs in verdict.epochs.items():
        if epochs < options.epochs:
            verdict.problems.append(f"{dataset}: {epochs} complete epochs of {options.epochs}")
    for problem in verdict.problems:
        print(f"audit: {problem}")
    for lost in verdict.lost:
        print(f"audit: the state of all workers was lost: {lost} were trained again")
    complete = ", ".join(f"{epochs} of {name}" for name, epochs in verdict.epochs.items()) or "none"
    print(
        f"audit: {verdict.records} records in {verdict.steps} committed steps; complete epochs: "
        f"{complete}; {verdict.abandoned} commits abandoned; "
        + (f"{len(verdict.problems)} problems" if verdict.problems else "each record exactly once")
    )
    return 1 if verdict.problems else 0
