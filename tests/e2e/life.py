"""The life of a run of one target, step by step, on a live cluster."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pod_records
from edits import Edits
from live import Data, Differs, Live, Missing, Refused
from outcomes import NEEDS, EditOutcome, Outcome, Outcomes, Result
from survey import TARGETS
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import operators
from trainwright.objects.pods.pod import Pod
from workplace import ENDS, ENVIRONMENT, FAILS, RUNS, Workplace

# Verbs, or their options, that a target's API has no field for, or none that may change: docs/lifecycle.md.
REFUSED_VERBS = {
    ("trainingjob", "suspend"),
    ("jobset", "--max-duration"),
    ("trainjob", "--max-duration"),
}
_ENDED_WELL = ("Complete", "Completed", "Succeeded")
_ENDED = (*_ENDED_WELL, "Failed")
_SERVERS = ("managedFields", "resourceVersion")  # what every write changes


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What the lives of all targets share."""

    live: Live
    workplace: Workplace
    outcomes: Outcomes
    namespace: str
    targets: tuple[str, ...]
    seconds: float
    no_controller: frozenset[str]  # targets and engines whose kinds are there, and they are not
    no_kubelet: str  # why no pod ever runs; nothing where pods do


class Steps:
    """The steps of one column of the table: what each needs, and its outcome."""

    def __init__(self, ground: Ground, target: str):
        self.ground, self.target = ground, target
        self.live, self.workplace = ground.live, ground.workplace

    def step(self, name: str, act: Callable[[], str], needs: tuple[str, ...] = ()) -> None:
        """Takes a step and writes its outcome; skips it where one that it needs did not hold."""
        outcome = self._outcome(name, act, needs)
        outcome = replace(outcome, details=self._comparable(outcome.details))
        self.ground.outcomes.steps.append(outcome)
        print(f"  {self.target}: {name}: {outcome.result}", file=sys.stderr)

    def _comparable(self, words: str) -> str:
        """Without the random name, so that two tables differ where two clusters do."""
        return words.replace(self.ground.namespace, "NAMESPACE")

    def _outcome(self, name: str, act: Callable[[], str], needs: tuple[str, ...]) -> Outcome:
        for needed in needs:
            before = self.ground.outcomes.of(self.target, needed)
            if before is None or before.result is not Result.HELD:
                return Outcome(self.target, name, Result.SKIPPED, f"{NEEDS}{needed}")
        try:
            return Outcome(self.target, name, Result.HELD, act())
        except Missing as missing:
            return Outcome(self.target, name, Result.SKIPPED, str(missing))
        except (Differs, Refused, TrainwrightError) as differs:
            return Outcome(self.target, name, Result.DIFFERED, str(differs))
        except Exception as error:  # noqa: BLE001 - a connection that broke; the others go on
            return Outcome(self.target, name, Result.DIFFERED, repr(error))

    def until(self, what: str, look: Callable[[], bool]) -> None:
        self.live.until(self.ground.seconds, what, lambda: look() or None)

    def needs_controller(self) -> None:
        if self.target in self.ground.no_controller:
            raise Missing("no controller of this kind runs (--without-controller)")

    def needs_running_pods(self) -> None:
        self.needs_controller()
        if self.ground.no_kubelet:
            raise Missing(self.ground.no_kubelet)

    # --- what is applied, and what is there ------------------------------------------------------

    def main(self, job: str) -> Data:
        """The object that becomes pods, as it is rendered."""
        kind = TARGETS[self.target][1]
        return next(body for body in self.workplace.objects(job) if body["kind"] == kind)

    def apply(self, job: str) -> str:
        bodies = self.workplace.objects(job)
        for body in bodies:
            self.live.apply(body)
        return f"{len(bodies)} objects"

    def is_there(self, job: str) -> Data:
        found = self.live.get(self.main(job))
        if found is None:
            raise Differs(f"{self.main(job)['metadata']['name']} is not there")
        return found

    def pods(self, job: str) -> list[Data]:
        """The pods of a run that are not on their way out, by what its pods are labelled with."""
        name = self.main(job)["metadata"]["name"]
        labels = f"app.kubernetes.io/instance={name}"
        found = self.live.list("v1", "Pod", self.ground.namespace, labels)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def predicted(self, job: str) -> dict[str, Pod]:
        bodies = self.workplace.objects(job)
        made = operators.pods(tuple(Manifest(body=body) for body in bodies))
        return {pod.name: pod for pod in made}

    def shown(self, job: str, *phases: str) -> str:
        """Waits until `trainwright status` shows one of some phases for the run that git has."""
        name = self.main(job)["metadata"]["name"]
        seen = "nothing"

        def look() -> bool:
            nonlocal seen
            items = [item for item in self.workplace.status(job) if item["object"] == name]
            seen = ", ".join(f"{item['cluster']} ({item['message']})" for item in items) or seen
            return bool(items) and items[0]["cluster"] in phases

        try:
            self.until(f"status shows {' or '.join(phases)}", look)
        except Differs as differs:
            raise Differs(f"{differs}; it shows {seen}") from None
        return ""

    def verb(self, verb: str, job: str, *arguments: str) -> bool:
        """A verb and its rendering; False where the target has to refuse it, and does."""
        if {(self.target, word) for word in (verb, *arguments)} & REFUSED_VERBS:
            self.workplace.run(verb, f"{ENVIRONMENT}/{job}", *arguments, code=2)
            return False
        self.workplace.verb(verb, f"{ENVIRONMENT}/{job}", *arguments)
        return True

    def tried(self, found: Iterator[EditOutcome]) -> str:
        edits = [
            replace(e, edit=self._comparable(e.edit), answer=self._comparable(e.answer))
            for e in found
        ]
        self.ground.outcomes.edits += edits
        wrong = [edit for edit in edits if edit.result is Result.DIFFERED]
        if wrong:
            listed = "; ".join(
                f"{e.edit} is {e.expected} by {e.row}, and {e.answer}" for e in wrong
            )
            raise Differs(f"{len(wrong)} of {len(edits)} edits: {listed}")
        skipped = sum(edit.result is Result.SKIPPED for edit in edits)
        return f"{len(edits) - skipped} edits" + (f", {skipped} skipped" if skipped else "")


class Life(Steps):
    """A run that is applied, edited, suspended and resumed; one that ends well; one that fails."""

    def __init__(self, ground: Ground, target: str):
        super().__init__(ground, target)
        self.job, self.ends, self.fails = (f"{target}-{name}" for name in ("runs", "ends", "fails"))
        self.edits = Edits(
            self.live,
            self.workplace.environment,
            target,
            webhooks=target not in ground.no_controller,
        )

    def take(self) -> None:
        self.step("render", self._render)
        self.step("apply", lambda: self.apply(self.job), ("render",))
        self.step("pods as predicted", self._pods, ("apply",))
        self.step("status after apply", self._status_after_apply, ("apply",))
        self.step("second apply changes nothing", self._second_apply, ("apply",))
        self.step("status --diff is empty", self._no_difference, ("apply",))
        self.step("edits while it runs", lambda: self._edits("running"), ("apply",))
        self.step("set --max-duration", self._extend, ("apply",))
        self.step("suspend", self._suspend, ("apply",))
        self.step("status: suspended", self._suspended_status, ("suspend",))
        self.step("edits while suspended", lambda: self._edits("suspended"), ("suspend",))
        self.step("resume", self._resume, ("suspend",))
        self.step("edits of variants", self._variants, ("apply",))
        self.step("every row of the table of edits was met", self._rows, ("edits while it runs",))
        self.step("finish", lambda: self._end(self.ends, _ENDED_WELL), ("render",))
        self.step("status: succeeded", lambda: self.shown(self.ends, "succeeded"), ("finish",))
        self.step("fail", lambda: self._end(self.fails, ("Failed",)), ("render",))
        self.step("status: failed", lambda: self.shown(self.fails, "failed"), ("fail",))
        self.step("retire", self._retire, ("finish",))

    def _render(self) -> str:
        self.workplace.job(
            self.job,
            self.target,
            RUNS,
            files={"/etc/e2e.txt": {"content": "of the run"}},
            initContainers={
                "prepare": {"image": self.workplace.image.reference, "command": list(ENDS)}
            },
            retries=1,
        )
        self.workplace.job(self.ends, self.target, ENDS)
        self.workplace.job(self.fails, self.target, FAILS)
        self.workplace.render(self.job, self.ends, self.fails)
        return ""

    def _pods(self) -> str:
        self.needs_controller()
        wanted = self.predicted(self.job)
        self.until(f"{len(wanted)} pods", lambda: len(self.pods(self.job)) >= len(wanted))
        run = pod_records.Run(
            target=self.target,
            name=self.main(self.job)["metadata"]["name"],
            applied=self.workplace.objects(self.job),
        )
        reals = self.pods(self.job)
        names = sorted(map(pod_records.pod_name, reals))
        if names != sorted(wanted):
            raise Differs(f"predicted {sorted(wanted)}, found {names}")
        for real in reals:
            _compare(run, wanted[pod_records.pod_name(real)], real)
        return f"{len(reals)} pods, every field"

    def _status_after_apply(self) -> str:
        self.needs_controller()
        phase = "pending" if self.ground.no_kubelet else "running"
        self.shown(self.job, phase)
        return phase

    def _second_apply(self) -> str:
        bodies = self.workplace.objects(self.job)
        before = [_settled(self.live.get(body)) for body in bodies]
        self.apply(self.job)
        after = [_settled(self.live.get(body)) for body in bodies]
        if before != after:
            raise Differs("; ".join(_differing(before, after)))
        return f"{len(bodies)} objects"

    def _no_difference(self) -> str:
        self.workplace.reading("status", "--diff", f"{ENVIRONMENT}/{self.job}")
        return ""

    def _edits(self, state: str) -> str:
        return self.tried(self.edits.all_of(self.workplace.objects(self.job), state))

    def _variants(self) -> str:
        return self.tried(self.edits.of_variants(self.workplace.objects(self.job)))

    def _rows(self) -> str:
        missed = self.edits.not_met(self.workplace.objects(self.job))
        if missed:
            raise Missing(f"no edit of this object meets {'; '.join(missed)}")
        return ""

    def _extend(self) -> str:
        name = self.main(self.job)["metadata"]["name"]
        if not self.verb("set", self.job, "--max-duration", "3h"):
            return "refused, as documented"
        self.apply(self.job)
        body = self.is_there(self.job)
        if body["metadata"]["name"] != name or not _deadlines(body["spec"], 3 * 3600):
            raise Differs(f"{name} does not have the new deadline")
        return ""

    def _suspend(self) -> str:
        if not self.verb("suspend", self.job):
            raise Missing("refused, as documented: its API has no such field")
        self.apply(self.job)
        if not _suspends(self.is_there(self.job)):
            raise Differs("the live object is not suspended")
        if self.target not in self.ground.no_controller:
            self.until("no pod is left", lambda: not self.pods(self.job))
        return ""

    def _suspended_status(self) -> str:
        return self.shown(self.job, "suspended")

    def _resume(self) -> str:
        self.verb("resume", self.job)
        self.apply(self.job)
        if _suspends(self.is_there(self.job)):
            raise Differs("the live object is still suspended")
        self.needs_controller()
        wanted = len(self.predicted(self.job))
        self.until(f"{wanted} pods again", lambda: len(self.pods(self.job)) == wanted)
        return self._status_after_apply()

    def _end(self, job: str, wanted: tuple[str, ...]) -> str:
        self.needs_running_pods()
        self.apply(job)
        ended = ""

        def look() -> bool:
            nonlocal ended
            ended = _ending(self.is_there(job))
            return bool(ended)

        self.until(f"one of the conditions {', '.join(_ENDED)}", look)
        if ended not in wanted:
            raise Differs(f"it ended as {ended}, not as {' or '.join(wanted)}")
        return ended

    def _retire(self) -> str:
        bodies = self.workplace.objects(self.ends)
        self.workplace.verb("retire", f"{ENVIRONMENT}/{self.ends}")
        self.workplace.run("render", ENVIRONMENT, "--check")
        if self.workplace.objects(self.ends):
            raise Differs("it is still rendered")
        for body in bodies:
            self.live.delete(body)
        self.until("its objects are gone", lambda: not any(map(self.live.get, bodies)))
        items = self.workplace.status(self.ends)
        shown = [item["cluster"] for item in items if item["cluster"] != "deleted"]
        if shown:
            raise Differs(f"status shows {', '.join(shown)} of what is gone")
        return ""


def _compare(run: pod_records.Run, pod: Pod, real: Data) -> None:
    """Raises Differs with each field of a real pod that is not as predicted."""
    try:
        seen, wanted = pod_records.seen(real), pod_records.foreseen(run, pod, real)
    except (KeyError, ValueError, AssertionError) as error:
        raise Differs(f"{pod.name} cannot be compared: {error!r}") from None
    if run.target == "trainingjob":  # what its operator writes into metadata was never recorded
        for field in ("labels", "annotations"):
            seen[field] = {k: v for k, v in seen[field].items() if k in wanted[field]}
    wrong = [
        f"{field}: {wanted[field]} was predicted, and {seen[field]} is there"
        for field in wanted
        if seen[field] != wanted[field]
    ]
    if wrong:
        raise Differs(f"{pod.name}: {'; '.join(wrong)}")


def _settled(body: Data | None) -> Data:
    """An object without what every write, and every controller's status, changes."""
    if body is None:
        return {}
    kept = copy.deepcopy({key: value for key, value in body.items() if key != "status"})
    for field in _SERVERS:
        kept["metadata"].pop(field, None)
    return kept


def _differing(before: list[Data], after: list[Data]) -> Iterator[str]:
    for old, new in zip(before, after, strict=True):
        for key in {*old, *new}:
            if old.get(key) != new.get(key):
                yield f"{new.get('kind')} {key}: {old.get(key)} became {new.get(key)}"


def _suspends(body: Data) -> bool:
    spec = body["spec"]
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


def _deadlines(spec: Data, seconds: int) -> bool:
    known = (spec, spec.get("runPolicy") or {})
    return any(place.get("activeDeadlineSeconds") == seconds for place in known)


def _ending(body: Data) -> str:
    """The condition by which a run is over, if it is."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    held = [c["type"] for c in conditions if c["status"] == "True"]
    return next((kind for kind in held if kind in _ENDED), "")
