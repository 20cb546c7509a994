"""The verbs that follow one run: showing its logs, and waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from trainwright.cluster import logs, text, wait
from trainwright.cluster.errors import ClusterError, Unreachable
from trainwright.cluster.intent import DesiredRun
from trainwright.cluster.logs import LogLine, LogOptions
from trainwright.cluster.pods import LivePod
from trainwright.cluster.status import BROKEN, LiveNamespace, LiveObject, RunStatus, resource_of
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.visibility import visible
from trainwright.kinds.state import Phase

ALL = "all"  # in place of a role: the pods that train and all others


@dataclass(frozen=True, slots=True)
class Session:
    """One job in its cluster; `object` names another run's object than git's, if not empty."""

    where: LiveNamespace
    intent: DesiredRun
    object: str = ""

    @property
    def name(self) -> str:
        """The object's name. Raise ClusterError if git has no object of the job."""
        if self.object:
            return self.object
        if self.intent.manifest is None:
            raise ClusterError(
                f"{self.intent.job} is {self.intent.desired}: git has no object of it"
                f"{self._others()}"
            )
        return self.intent.manifest.name

    # --- logs ------------------------------------------------------------------------------------

    def logs(
        self, wanted: LogOptions, *, role: str = "", rank: int | None, follow: bool
    ) -> Iterator[LogLine]:
        """Return the log lines of the pods that train or of a role, first why it is broken."""
        cluster, namespace = self.where.cluster, self.where.namespace
        run = self._run()
        why = logs.reports(run.pods) if run.state.phase in BROKEN else ()
        if not run.pods and not follow:
            message = text.sentence(run.state) or "its pods are gone, or not there yet"
            raise ClusterError(f"{run} is {run.state.phase} and has no pods: {visible(message)}")
        if not follow:
            pods = logs.in_order(
                _with(rank, _of(role, run.pods)), failed_first=run.state.phase is Phase.FAILED
            )
            return chain(why, logs.read(cluster, namespace, pods, wanted))

        def again() -> tuple[Sequence[LivePod], bool]:
            now = self._run()
            followed = [pod for pod in _of(role, now.pods) if role or not pod.role or _failed(pod)]
            return _with(rank, followed) if followed else (), now.state.over

        return chain(why, logs.follow(cluster, namespace, again, wanted))

    def _run(self) -> RunStatus:
        live = self.where.find(self.intent, self.name)
        if live is None:
            raise ClusterError(f"{self.intent.job}: {self.name} is not applied{self._others()}")
        return self.where.run(self.intent, live)

    def _others(self) -> str:
        names = [name for name in self.where.others(self.intent) if name != self.object]
        return f"; in the cluster: {', '.join(names)} (see --run)" if names else ""

    # --- wait ------------------------------------------------------------------------------------

    def wait(
        self, goal: str, timeout: float | None, say: Callable[[str], None]
    ) -> tuple[bool, str]:
        """Return whether the goal was reached, and the last state in words; `say` gets each change.

        Raise ClusterError if the time is up.
        """
        name, kind = self.name, self.intent.kind
        assert kind is not None, "every rendered kind has its states"
        last, where = "", (self.where.cluster, resource_of(kind), self.where.namespace)
        run: RunStatus | None = None
        wanted = wait.GOALS[goal]
        for body in wait.objects(*where, name, timeout):
            if body is None and run is not None:
                return False, f"{self.intent.job}: {name} was deleted"
            words = f"{self.intent.job}: {name} is not applied"
            if body is not None:
                try:
                    run = self.where.run(self.intent, LiveObject(kind, body))
                except Unreachable:  # `objects` comes back, or says that it cannot
                    continue
                words, reached = _words(run), wanted.reached(run.state)
                if reached or run.state.over:
                    return reached, words
            if words != last:
                last = words
                say(words)
        raise ClusterError(f"timed out waiting until {wanted.summary}: {last}")


def _words(run: RunStatus) -> str:
    state = run.state
    counted = "" if state.over or state.total is None else f" {state.ready or 0}/{state.total}"
    why = visible(text.sentence(state))
    return f"{run}: {run.object} is {state.phase}{counted}" + (f": {why}" if why else "")


def _of(role: str, pods: Sequence[LivePod]) -> Sequence[LivePod]:
    """Return the pods of a role or, with ALL, of every role; by default the training pods, and
    those of roles that failed.

    Before any pod trains, the pods of all roles. Raise ClusterError for an unknown role.
    """
    roles = dict.fromkeys(pod.role for pod in pods if pod.role)
    if role in roles:
        return [pod for pod in pods if pod.role == role]
    if not role and not all(pod.role for pod in pods):
        return [pod for pod in pods if not pod.role or _failed(pod)]
    if role not in ("", ALL) and pods:
        there = f"its pods are of {', '.join(roles)}" if roles else "it has no roles"
        raise ClusterError(f"there is no role {role}: {there}")
    return pods


def _failed(pod: LivePod) -> bool:
    ending = pod.ending or pod.before
    return ending is not None and ending.failed


def _with(rank: int | None, pods: Sequence[LivePod]) -> tuple[LivePod, ...]:
    """Return the pods that hold a rank or, if ranks are unknown, the pod of that number.

    Of several on one seat the newest. Raise ClusterError for an unknown rank.
    """
    if rank is None:
        return tuple(pods)
    trains = [pod for pod in pods if not pod.role] or pods
    have_ranks = all(pod.seat and pod.seat.ranks for pod in trains)
    held = [
        pod
        for pod in trains
        if (rank in pod.seat.ranks if have_ranks and pod.seat else rank == pod.number)
    ]
    if not held:
        there = ", ".join(dict.fromkeys(pod.label for pod in trains))
        raise ClusterError(f"there is no rank {rank}: pods hold {there}")
    return tuple(held[-1:])
