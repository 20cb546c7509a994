"""The logs of a run's ranks, in order or as they are written, through broken connections."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress

from trainwright.cluster.client import Cluster
from trainwright.cluster.errors import ClusterError, NoLog, Unknown, Unreachable, Waiting
from trainwright.cluster.observe import first_failure
from trainwright.cluster.pods import LivePod
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.credentials import redact

_PAUSE = 2.0  # seconds before a container that has not started is asked again
_LOOK = 15.0  # seconds without a line before the pods are looked at again
_PATIENCE = 30  # broken connections in a row before giving up, about a minute
GONE = "the pod is gone, and its log with it"
_QUEUE = 1000  # lines that may wait for a slow terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of a log: of the container before a restart, since a time, the last lines."""

    previous: bool = False
    since: int | None = None  # seconds
    tail: int | None = None

    def options(self, container: str) -> dict[str, str]:
        parameters = {"container": container}
        if self.previous:
            parameters["previous"] = "true"
        if self.since is not None:
            parameters["sinceSeconds"] = str(self.since)
        if self.tail is not None:
            parameters["tailLines"] = str(self.tail)
        return parameters


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a pod's log, or with `note` a remark of Trainwright about the log."""

    pod: LivePod
    text: str
    note: bool = False


def in_order(pods: Sequence[LivePod], *, failed_first: bool) -> tuple[LivePod, ...]:
    """Return pods by rank; with `failed_first`, failed ones first, and root causes before the ranks
    that only failed because of them."""

    def weight(pod: LivePod) -> int:
        """Return 0 for a rank that failed first, 1 for one that failed after another, else 2."""
        ending = pod.ending or pod.before
        if ending is None or not ending.failed:
            return 2
        return int(ending.follows)

    return tuple(sorted(pods, key=weight)) if failed_first else tuple(pods)


def reports(pods: Sequence[LivePod]) -> Iterator[LogLine]:
    """Yield the runtime's report of the rank that failed first, to be shown before the logs."""
    failure = first_failure(pods)
    if failure is not None and failure[1].report is not None:
        yield LogLine(failure[0], failure[1].report.message, note=True)


def read(
    cluster: Cluster, namespace: str, pods: Sequence[LivePod], wanted: LogOptions
) -> Iterator[LogLine]:
    """Yield what has been written so far, pod after pod."""
    for pod in pods:
        try:
            for _, text in cluster.log(namespace, pod.name, wanted.options(pod.container)):
                yield LogLine(pod, redact(text))
        except Waiting as error:
            yield LogLine(pod, pod.message or str(error), note=True)
        except Unknown:
            yield LogLine(pod, GONE, note=True)
        except NoLog as error:
            yield LogLine(pod, str(error), note=True)


def follow(
    cluster: Cluster,
    namespace: str,
    again: Callable[[], tuple[Sequence[LivePod], bool]],
    wanted: LogOptions,
) -> Iterator[LogLine]:
    """Yield lines as they are written, of all pods, until the run is over.

    `again` returns the current pods, and whether the run is over: pods that are started
    again are followed too. Streams that break are resumed where they broke.
    """
    lines: queue.Queue[LogLine | ClusterError | None] = queue.Queue(_QUEUE)
    stop = threading.Event()
    followed: dict[tuple[str, str, int], threading.Thread] = {}

    def pump(pod: LivePod) -> None:
        try:
            for line in _stream(cluster, namespace, pod, wanted, stop):
                lines.put(line)
        except ClusterError as error:
            lines.put(error)
        lines.put(None)  # look again

    pods, over, ended = *again(), False
    try:
        while True:
            for pod in pods:
                key = (pod.name, pod.created, pod.restarts)
                if key not in followed:
                    followed[key] = threading.Thread(target=pump, args=(pod,), daemon=True)
                    followed[key].start()
            ended = yield from _until_one_ends(lines, _PAUSE if over or ended else _LOOK)
            alive = any(thread.is_alive() for thread in followed.values())
            if over and not alive and lines.empty():
                return
            with suppress(Unreachable):  # the streams say when that lasts
                pods, over = again()
    finally:
        stop.set()


def _until_one_ends(
    lines: queue.Queue[LogLine | ClusterError | None], pause: float
) -> Generator[LogLine, None, bool]:
    """Yield lines until a stream ends or none comes for a while. Return whether a stream ended."""
    while True:
        try:
            line = lines.get(timeout=pause)
        except queue.Empty:
            return False
        if line is None:
            return True
        if isinstance(line, ClusterError):
            raise line
        yield line


@dataclass(slots=True)
class _Position:
    """How far a log has been read, and how many attempts in a row brought nothing."""

    last: str = ""
    lost: int = 0


def _stream(
    cluster: Cluster, namespace: str, pod: LivePod, wanted: LogOptions, stop: threading.Event
) -> Iterator[LogLine]:
    """Yield one container's log to its end."""
    options, position, last = wanted.options(pod.container), _Position(), ""
    while not stop.is_set():
        try:
            yield from _after(cluster, namespace, pod, options, position)
            return
        except Unknown:
            return
        except (Waiting, NoLog) as error:
            words = pod.message if isinstance(error, Waiting) else str(error)
            if words != last:
                last = words
                yield LogLine(pod, words, note=True)
            position.lost += isinstance(error, NoLog)
            if position.lost > (_PATIENCE if pod.ending is None else 0):
                return
            stop.wait(_PAUSE)
        except Unreachable:
            position.lost += 1
            if position.lost > _PATIENCE:
                raise
            options = _from(options, position.last)
            stop.wait(min(position.lost / 2, _PAUSE))


def _after(
    cluster: Cluster, namespace: str, pod: LivePod, options: Mapping[str, str], position: _Position
) -> Iterator[LogLine]:
    """Yield lines not read before: a resumed stream starts at a whole second and repeats some."""
    for at, text in cluster.log(namespace, pod.name, options, follow=True):
        position.lost = 0
        if at > position.last:
            position.last = at
            yield LogLine(pod, redact(text))


def _from(options: Mapping[str, str], last: str) -> dict[str, str]:
    """Return the options of the same log from the last line that was seen."""
    if not last:
        return dict(options)
    rest = {k: v for k, v in options.items() if k not in ("tailLines", "sinceSeconds")}
    return {**rest, "sinceTime": last}
