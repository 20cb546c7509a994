"""The comparison of the ranks that processes reported with those that were predicted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.objects.pods.pod import Pod
from trainwright.objects.pods.rank_prediction import Process
from trainwright.rehearsal.staging import report_folder

_KEYS = ("rank", "local_rank", "world_size", "node_rank")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many processes were predicted and reported, and each way in which they disagree."""

    foreseen: int
    reported: int
    differences: tuple[str, ...]


def compare(pods: Sequence[Pod], foreseen: tuple[Process, ...], work: Path) -> Comparison:
    """Read the reports below `work` and compare them.

    Nothing is wrong with no report at all: only launchers that know of it write any.
    """
    reports = {pod.name: dict(_reports(report_folder(work, pod))) for pod in pods}
    count = sum(map(len, reports.values()))
    if not count:
        return Comparison(len(foreseen), 0, ())
    differences = [line for process in foreseen for line in _check(process, reports[process.pod])]
    expected = {(process.pod, process.local_rank) for process in foreseen}
    differences += [
        f"{pod}, local rank {local}: reported, but not expected"
        for pod, by_rank in reports.items()
        for local in by_rank
        if (pod, local) not in expected
    ]
    return Comparison(len(foreseen), count, (*differences, *_shared_ranks(reports)))


def _reports(folder: Path) -> Iterator[tuple[int, Mapping[str, Data]]]:
    """Yield reports by local rank; of a process that was started again, the last one counts.

    A file that is no report is passed over: a process may have died while it wrote it.
    """
    files = sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    for path in files:
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(data, dict) and isinstance(data.get("local_rank"), int):
            yield data["local_rank"], data


def _check(process: Process, by_rank: Mapping[int, Mapping[str, Data]]) -> Iterator[str]:
    where = f"{process.pod}, local rank {process.local_rank}"
    report = by_rank.get(process.local_rank)
    if report is None:
        yield f"{where}: not reported"
        return
    for key in _KEYS:
        expected = getattr(process, key)
        if expected is not None and report.get(key) not in (None, expected):
            yield f"{where}: {key} {expected} was expected, {report[key]} reported"


def _shared_ranks(reports: Mapping[str, Mapping[int, Mapping[str, Data]]]) -> Iterator[str]:
    holders: dict[int, list[str]] = {}
    for pod, by_rank in reports.items():
        for local, report in by_rank.items():
            if isinstance(report.get("rank"), int):
                holders.setdefault(report["rank"], []).append(f"{pod}, local rank {local}")
    for rank, names in sorted(holders.items()):
        if len(names) > 1:
            yield f"rank {rank} was reported by {' and by '.join(names)}"
