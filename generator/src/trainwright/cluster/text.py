"""Runs in words: a table for a terminal, items for `-o json`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.cluster.pods import LivePod, Termination
from trainwright.cluster.status import LastLines, RunStatus, Unread
from trainwright.datatypes.data import Data
from trainwright.datatypes.listing import listed
from trainwright.findings.visibility import visible
from trainwright.kinds.state import Phase, State
from trainwright.objects.departure import deletion
from trainwright.reports import terminal
from trainwright.reports.values import change_data, change_line
from trainwright.runs.workspace import RunState

_WIDE = 120  # characters of a reason in a table of many runs
HEADERS = ("job", "object", "git", "cluster", "ready", "restarts", "since", "why")


def table(runs: Sequence[RunStatus], *, color: bool) -> str:
    """Return a table with one run per line. Reasons are cut short; `detail` shows a run in full."""
    rows = [
        (
            str(run),
            run.object or "-",
            run.desired,
            run.state.phase.value,
            _ready(run.state),
            str(run.state.restarts or "-"),
            run.state.since or "-",
            "; ".join(_cut(visible(line)) for line in _why(run)),
        )
        for run in runs
    ]
    return terminal.table(HEADERS, rows, color=color)


def detail(runs: Sequence[RunStatus], last: LastLines, *, color: bool) -> str:
    """Return one job's runs as text: pods, reasons in full, and the failed rank's last lines."""
    parts = [table(runs, color=color)]
    for run in runs:
        parts += [f"\n{visible(line)}\n" for line in _why(run) if len(line) > _WIDE]
        if run.held:
            parts.append(f"\noutdated until `trainwright rerun {run}`:\n")
            lines = (f"{change_line(held)} ({held.place})" for held in run.held)
            parts += [f"  {visible(line)}\n" for line in lines]
        if run.pods:
            parts.append("\n" + _pods(run.pods, color=color))
    if last.lines:
        parts.append("\nlast lines of the rank that failed first:\n")
        parts += [f"  {visible(line)}\n" for line in last.lines]
    if last.missing:
        parts.append(f"\nno last lines of the rank that failed first: {visible(last.missing)}\n")
    return "".join(parts)


def _pods(pods: Sequence[LivePod], *, color: bool) -> str:
    rows = [
        (
            pod.name,
            pod.label,
            pod.node or "-",
            "Ready" if pod.ready else pod.phase,
            str(pod.restarts or "-"),
            _cut(visible(_pod(pod))),
        )
        for pod in pods
    ]
    return terminal.table(("pod", "ranks", "node", "phase", "restarts", "why"), rows, color=color)


def _pod(pod: LivePod) -> str:
    parts = [": ".join(filter(None, (pod.reason, pod.message)))]
    ending = pod.ending or pod.before
    if ending is not None and ending.failed:
        code = f"exit code {ending.code}" if ending.code >= 0 else ""
        parts.append(" ".join(filter(None, (code, ending.reason))))
        parts.append(ending.last_words)
    return "; ".join(filter(None, parts))


def _ready(state: State) -> str:
    if state.over or state.total is None or state.phase in (Phase.ABSENT, Phase.DELETED):
        return "-"
    return f"{state.ready or 0}/{state.total}"


def _why(run: RunStatus) -> Iterator[str]:
    message = sentence(run.state)
    if message:
        yield message
    if run.drift:
        yield f"differs from git at {listed(run.drift, 1)}"
    if run.namespace and (run.desired.is_over or run.desired is RunState.NOT_IN_GIT):
        command = deletion(run.kind, run.namespace, run.object, None)
        ended = (
            "it is cancelled, and still there" if run.desired is RunState.CANCELLED else _NOT_GIT
        )
        yield f"{ended}: `{command}` ends it"
    if run.held:
        yield f"outdated: {terminal.outdated(run.held)}"


_NOT_GIT = "git does not have it"


def sentence(state: State) -> str:
    """Return why a run is in its phase, in the cluster's words; empty if all is well."""
    all_ready = state.phase is Phase.RUNNING and state.ready == state.total
    if all_ready or state.phase is Phase.SUCCEEDED:
        return ""
    reason = "" if state.reason in state.message else state.reason
    return ": ".join(filter(None, (reason, state.message)))


def _cut(text: str) -> str:
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def unread_items(unread: Sequence[Unread]) -> list[Data]:
    """Return what could not be read, as data."""
    return [
        {"environment": item.environment, "namespace": item.namespace, "error": str(item.error)}
        for item in unread
    ]


def items(runs: Sequence[RunStatus]) -> list[Data]:
    """Return runs as data."""
    return [
        {
            "job": str(run),
            "object": run.object,
            "kind": run.kind,
            "git": run.desired,
            "cluster": run.state.phase.value,
            "reason": run.state.reason,
            "message": run.state.message,
            "ready": run.state.ready,
            "total": run.state.total,
            "restarts": run.state.restarts,
            "since": run.state.since,
            "drift": list(run.drift),
            "outdated": [change_data(held) for held in run.held],
            "pods": [_pod_item(pod) for pod in run.pods],
        }
        for run in runs
    ]


def _pod_item(pod: LivePod) -> dict[str, Data]:
    return {
        "name": pod.name,
        "role": pod.role,
        "ranks": list(pod.seat.ranks) if pod.seat else [],
        "node": pod.node,
        "phase": pod.phase,
        "ready": pod.ready,
        "restarts": pod.restarts,
        "reason": pod.reason,
        "message": pod.message,
        "ending": _ending_item(pod.ending or pod.before),
    }


def _ending_item(ending: Termination | None) -> dict[str, Data] | None:
    if ending is None:
        return None
    return {
        "code": ending.code if ending.code >= 0 else None,
        "reason": ending.reason,
        "message": ending.message,
        "at": ending.at,
        "cause": ending.report.cause if ending.report else None,
    }
