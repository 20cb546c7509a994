"""A rehearsal in words: what will run, what it prints, how it ended."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from trainwright.datatypes.listing import plural
from trainwright.files import filetree
from trainwright.findings.credentials import HIDDEN, redact
from trainwright.objects.pods.pod import Pod, Restart, Workload
from trainwright.objects.pods.rank_prediction import Process
from trainwright.rehearsal.processes import Outcome
from trainwright.rehearsal.reported import Comparison
from trainwright.rehearsal.session import Rehearsal
from trainwright.reports import terminal

if TYPE_CHECKING:
    from rich.status import Status

_COLORS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red")


def introduction(rehearsal: Rehearsal, *, color: bool) -> str:
    """Return what is about to run, and every way in which it differs from the cluster."""
    name, workload = rehearsal.rendering.object_name, rehearsal.workload
    rows = [_row(pod, rehearsal) for pod in workload.pods]
    lines = [
        f"{rehearsal.file} as {name}, with the env that the {rehearsal.operator} gives its pods",
        "",
        terminal.table(("pod", "ranks", "world size"), rows, color=color).rstrip(),
        "",
        *_commands(workload.training, rehearsal.extra),
        *_commands_of_roles(workload),
        "",
        "Not as on the cluster:",
        *(f"  {redact(note)}" for note in _notes(rehearsal)),
    ]
    return _hide("\n".join(lines), rehearsal.staging.secrets) + "\n"


def _commands(pods: Sequence[Pod], extra: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the command lines as on the cluster, with what is appended here; other pods differ
    mostly by their own rank.
    """
    first, *others = dict.fromkeys(redact(shlex.join((*pod.argv, *extra))) for pod in pods)
    yield f"$ {first}"
    if others:
        yield f"  ({plural(len(others), 'other pod')} with other arguments)"


def _row(pod: Pod, rehearsal: Rehearsal) -> tuple[str, str, str]:
    own = rehearsal.processes_of(pod)
    if pod.role in rehearsal.workload.serving:
        return pod.name, f"none: role {pod.role}", ""
    return pod.name, _ranks(own), _world(own)


def _commands_of_roles(workload: Workload) -> Iterator[str]:
    for role in workload.serving:
        first, *others = _commands(workload.of_role(role))
        yield f"{first}  # role {role}"
        yield from others


def _ranks(processes: Sequence[Process]) -> str:
    if not processes:
        return "none: it trains nothing"
    ranks = [process.rank for process in processes if process.rank is not None]
    if len(ranks) < len(processes):
        knows_world = processes[0].world_size is not None
        return f"{len(processes)} of the rendezvous" if knows_world else "not told"
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"


def _world(processes: Sequence[Process]) -> str:
    sizes = {process.world_size for process in processes}
    return " or ".join("not told" if size is None else str(size) for size in sorted(sizes, key=str))


def _notes(rehearsal: Rehearsal) -> Iterator[str]:
    yield from rehearsal.rendering.changes
    yield "device: CPU with gloo, whatever this machine has"
    yield from rehearsal.staging.notes
    restarts = dict.fromkeys(_restarts(pod.restart) for pod in rehearsal.workload.pods)
    yield f"restarts: none, on the cluster {' or '.join(restarts)}"
    yield "security: processes run as you, without the limits of a container"


def _restarts(restart: Restart) -> str:
    if restart.limit == 0:
        return "none either"
    what = "all pods" if restart.gang else "a failed pod"
    times = "without limit" if restart.limit is None else f"up to {restart.limit} times"
    unless = " unless its exit code is 1 to 127" if restart.permanent else ""
    return f"{what} {times}{unless}"


def conclusion(rehearsal: Rehearsal, outcome: Outcome, comparison: Comparison) -> str:
    """Return how it ended; the last line gives the exit code."""
    lines = [f"\n{_match(comparison)}", *(f"  {line}" for line in comparison.differences)]
    if outcome.succeeded and rehearsal.saved_nothing():
        lines.append(_UNSAVED)
    if not outcome.succeeded:
        ended = (f"{pod} {code}" for pod, code in outcome.codes.items())
        lines.append(f"exit codes, in the order in which pods ended: {', '.join(ended)}")
    return "\n".join((*lines, f"trainwright: {_verdict(rehearsal, outcome, comparison)}")) + "\n"


_UNSAVED = (
    "checkpoints: nothing was saved in the folder of `checkpoint`, so a restart begins from zero: "
    "save to the folder in TRAINWRIGHT_CHECKPOINT_DIR, or pass ${{ checkpoint.folder }}"
)


def _match(comparison: Comparison) -> str:
    if not comparison.reported:
        return f"ranks: {comparison.foreseen} expected; only launcher: trainwright reports its own"
    how = "not as expected" if comparison.differences else "all as expected"
    return f"ranks: {comparison.foreseen} expected, {comparison.reported} reported, {how}"


def _verdict(rehearsal: Rehearsal, outcome: Outcome, comparison: Comparison) -> str:
    job = rehearsal.file
    if outcome.succeeded and comparison.differences:
        return f"{job} succeeded, but not with the ranks that were expected"
    if outcome.succeeded:
        return f"{job} succeeded"
    if outcome.signal:
        return f"{job} was stopped by signal {outcome.signal}: exit code {outcome.code}"
    pod = next(pod for pod in rehearsal.workload.pods if pod.name == outcome.failed)
    serves = pod.role in rehearsal.workload.serving
    how = _of_role(pod, outcome) if serves else _of_rank(pod, rehearsal, outcome)
    return f"{job} failed: {pod.name} {how}"


def _of_rank(pod: Pod, rehearsal: Rehearsal, outcome: Outcome) -> str:
    """Return how a pod that trains failed, and which roles it may have missed."""
    ranks = _ranks(rehearsal.processes_of(pod))
    has_rank = ranks[:1].isdigit()
    who = f"rank{'s' * ('-' in ranks)} {ranks}" if has_rank else f"node {pod.index}"
    gone = "".join(f"; {name} had ended before, with exit code 0" for name in outcome.gone)
    return f"({who}) ended with {_code(outcome.code)}, {_then(pod, outcome)}{gone}"


def _of_role(pod: Pod, outcome: Outcome) -> str:
    """Return how a pod of a role failed: before it was ready, or while it served."""
    who = f"(role {pod.role}, pod {pod.index})"
    if outcome.late:
        return f"{who} was not ready in time: {outcome.late}"
    how = f"{who} ended with {_code(outcome.codes.get(pod.name, 1))}"
    if pod.name not in outcome.ready:
        how += " before it was ready"
    if outcome.codes.get(pod.name) == 0:
        return f"{how}, and nothing starts it again on the cluster either"
    return f"{how}, {_then(pod, outcome)}"


def _code(code: int) -> str:
    """Return an exit code in words, with the name of the signal that it reports."""
    names = {128 + number: number.name for number in signal.Signals}
    return f"exit code {code}{f' ({names[code]})' if code in names else ''}"


def _then(pod: Pod, outcome: Outcome) -> str:
    restart = pod.restart
    if not restart.helps(outcome.code):
        return "which ends the job on the cluster too"
    limit = "" if restart.limit is None else f", at most {restart.limit} times"
    again = "all pods start" if restart.gang else "the pod is started"
    return f"after which on the cluster {again} again{limit}"


def _hide(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


class Printer:
    """Lines of processes to stdout, each after its pod's name; the rest to stderr.

    On a terminal a last line shows the progress. `paint` colours a text; `logs` is a folder that
    gets a file for each process as well.
    """

    def __init__(
        self, rehearsal: Rehearsal, *, paint: Callable[[str, str], str], logs: Path | None
    ):
        self._secrets = rehearsal.staging.secrets
        self._labels = [process.label for process in rehearsal.staging.processes]
        self._width = max(map(len, self._labels))
        self._paint = paint
        self._logs = logs
        self._files: dict[str, IO[str]] = {}
        self._stack = ExitStack()
        self._status: Status | None = None

    def __enter__(self) -> Printer:
        if self._logs is not None:
            with filetree.writing(self._logs):
                self._open(self._logs)
        if sys.stderr.isatty():
            from rich.console import Console  # 40 ms, and only terminals need it

            self._status = self._stack.enter_context(Console(stderr=True).status("starting"))
        return self

    def _open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for label in self._labels:
            path = folder / f"{label.replace('/', '-')}.log"
            self._files[label] = self._stack.enter_context(path.open("w", encoding="utf-8"))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def line(self, label: str, text: str) -> None:
        """Print a line that a process wrote."""
        text = _hide(text, self._secrets)
        if label in self._files:
            self._files[label].write(f"{text}\n")
        name = f"{label:<{self._width}}"
        color = _COLORS[self._labels.index(label) % len(_COLORS)]
        # rich's live display intercepts what is printed here, if both are on one terminal.
        print(f"{self._paint(name, color)} | {text}", flush=True)  # noqa: T201

    def state(self, running: int, ended: int) -> None:
        """Show how many pods run."""
        if self._status is not None:
            self._status.update(f"{plural(running, 'pod')} running, {ended} ended")

    def say(self, text: str) -> None:
        """Print a message about the rehearsal itself to stderr."""
        print(f"trainwright: {_hide(text, self._secrets)}", file=sys.stderr, flush=True)  # noqa: T201
