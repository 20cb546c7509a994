"""Runs in a queue of Kueue: waiting, prioritized, moved, held, released and admitted."""

from __future__ import annotations

import time
from collections.abc import Iterator

import yaml

from edits import Edits
from life import Ground, Steps
from live import Data, Differs, Live, Missing, Refused
from survey import Survey
from traces import Traces
from workplace import ENVIRONMENT, RUNS

_FIRST, _SECOND = "first", "second"
_PRIORITIES = {"low": 10, "high": 1000}
_INTEGRATIONS = {
    "pytorchjob": "kubeflow.org/pytorchjob",
    "trainjob": "trainer.kubeflow.org/trainjob",
    "jobset": "jobset.x-k8s.io/jobset",
    "job": "batch/job",
}
_PATIENCE = 5.0  # seconds in which what is held would be admitted if it were not
_OFF_SINCE = (0, 19)  # Kueue comes with the integration of PyTorchJobs switched off


class Queues:
    """A ClusterQueue with two LocalQueues and two priorities."""

    def __init__(self, live: Live, found: Survey, namespace: str, traces: Traces):
        self.live, self.api, self._namespace = live, found.kueue, namespace
        self._traces, self._made = traces, False
        self.version = found.minor("Kueue", "0.19")
        self.frameworks = self._frameworks() if self.api else None

    @property
    def environment(self) -> Data:
        """What environment.yaml has of them."""
        if not self.api:
            return {}
        known = {"frameworks": self.frameworks} if self.frameworks else {}
        return {
            "queueing": "kueue",
            "kueue": {"version": self.version, **known},
            "queues": {_FIRST: {}, _SECOND: {}},
        }

    def why_not(self, target: str) -> str:
        """Why a target cannot wait in a queue here; nothing where it can."""
        if not self._made:
            return "there are no queues"
        integration = _INTEGRATIONS.get(target)
        if integration is None:
            return "Kueue has no integration of this kind"
        version = tuple(int(part) for part in self.version.split("."))
        off = target == "pytorchjob" and version >= _OFF_SINCE
        if integration not in (self.frameworks or ([] if off else [integration])):
            return f"Kueue's integration {integration} is switched off"
        return ""

    def priority(self, name: str) -> str:
        return f"{self._namespace}-{name}"

    def make(self) -> str:
        if not self.api:
            raise Missing("Kueue is not installed")
        for body in self._bodies():
            self._traces.create(body)
        self._made = True
        return ""

    def hold(self, policy: str) -> None:
        """Whether the ClusterQueue admits anything: None, or Hold."""
        self.live.merge(self._cluster_queue(), {"spec": {"stopPolicy": policy}})

    def _bodies(self) -> Iterator[Data]:
        yield self._body("ResourceFlavor", self._namespace, {})
        yield self._cluster_queue()
        for name in (_FIRST, _SECOND):
            body = self._body("LocalQueue", name, {"spec": {"clusterQueue": self._namespace}})
            yield {**body, "metadata": {"name": name, "namespace": self._namespace}}
        for name, value in _PRIORITIES.items():
            yield self._body("WorkloadPriorityClass", self.priority(name), {"value": value})

    def _cluster_queue(self) -> Data:
        quota = [
            {"name": resource, "nominalQuota": amount}
            for resource, amount in {"cpu": "1", "memory": "1Gi"}.items()
        ]
        group = {
            "coveredResources": [resource["name"] for resource in quota],
            "flavors": [{"name": self._namespace, "resources": quota}],
        }
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        spec = {"namespaceSelector": selector, "resourceGroups": [group], "stopPolicy": "Hold"}
        return self._body("ClusterQueue", self._namespace, {"spec": spec})

    def _body(self, kind: str, name: str, rest: Data) -> Data:
        metadata = {"name": name, "labels": {"trainwright.io/e2e": self._namespace}}
        return {"apiVersion": self.api, "kind": kind, "metadata": metadata, **rest}

    def _frameworks(self) -> list[str] | None:
        """The integrations that are on, where Kueue's own configuration can be read."""
        named = {"name": "kueue-manager-config", "namespace": "kueue-system"}
        try:
            found = self.live.get({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named})
        except Refused:
            return None
        for text in ((found or {}).get("data") or {}).values():
            integrations = (yaml.safe_load(text) or {}).get("integrations") or {}
            if integrations.get("frameworks"):
                return list(integrations["frameworks"])
        return None


class Queued(Steps):
    """A run that waits in a queue until it is admitted."""

    def __init__(self, ground: Ground, target: str, queues: Queues):
        super().__init__(ground, target)
        self.queues = queues
        self.job = f"{target}-queued"
        self.edits = Edits(self.live, self.workplace.environment, target)

    def take(self) -> None:
        self.step("queue: waits", self._waits)
        waits = ("queue: waits",)
        self.step("queue: status: queued", lambda: self.shown(self.job, "queued"), waits)
        self.step("queue: priority", self._priority, waits)
        self.step("queue: move", self._move, waits)
        self.step("queue: edits while it waits", lambda: self._edits("waiting"), waits)
        self.step("queue: hold", self._hold, waits)
        self.step("queue: release", self._release, ("queue: hold",))
        released = ("queue: release",)
        self.step("queue: second apply evicts nothing", self._second_apply, released)
        self.step("queue: edits while admitted", lambda: self._edits("admitted"), released)
        self.step("queue: every row about it was met", self._rows, released)

    def _waits(self) -> str:
        why = self.queues.why_not(self.target)
        if why:
            raise Missing(why)
        self.needs_controller()
        self.queues.hold("Hold")
        low = self.queues.priority("low")
        self.workplace.job(self.job, self.target, RUNS, queue=_FIRST, queuePriority=low)
        self.workplace.render(self.job)
        self.apply(self.job)
        self.until("a Workload of the run", lambda: bool(self._workloads()))
        if self.pods(self.job):
            raise Differs("it has pods, although its queue is held")
        return ""

    def _workloads(self) -> list[Data]:
        uids = {self.is_there(self.job)["metadata"]["uid"]}
        found = self.live.list(self.queues.api, "Workload", self.ground.namespace)
        return [w for w in found if uids & {o["uid"] for o in _owners(w)}]

    def _workload(self) -> Data:
        found = self._workloads()
        if len(found) != 1:
            raise Differs(f"{len(found)} Workloads of one run")
        return found[0]

    def _priority(self) -> str:
        self.verb("set", self.job, "--priority", self.queues.priority("high"))
        self.apply(self.job)
        high = _PRIORITIES["high"]
        self.until(f"priority {high}", lambda: self._workload()["spec"].get("priority") == high)
        return ""

    def _move(self) -> str:
        self.verb("set", self.job, "--queue", _SECOND)
        self.apply(self.job)
        self.until("the other queue", lambda: self._workload()["spec"]["queueName"] == _SECOND)
        return ""

    def _edits(self, state: str) -> str:
        main = self.main(self.job)
        names = {"QUEUE": _FIRST, "PRIORITY": self.queues.priority("low")}
        return self.tried(
            edit
            for kind in (
                self.edits.queued(main, state, names),
                self.edits.all_of([main], state),
            )
            for edit in kind
        )

    def _rows(self) -> str:
        missed = self.edits.not_met([self.main(self.job)], queued=True)
        if missed:
            raise Missing(f"no edit meets {'; '.join(missed)}")
        return ""

    def _hold(self) -> str:
        """As Argo CD's action does it, since no field of git holds a run that waits."""
        self.live.merge(self._workload(), {"spec": {"active": False}})
        self.queues.hold("None")
        time.sleep(_PATIENCE)
        if self._admitted() or self.pods(self.job):
            raise Differs("it was admitted although its Workload is held")
        return ""

    def _release(self) -> str:
        self.live.merge(self._workload(), {"spec": {"active": True}})
        self.until("the admission", self._admitted)
        wanted = len(self.predicted(self.job))
        self.until(f"{wanted} pods", lambda: len(self.pods(self.job)) == wanted)
        return ""

    def _admitted(self) -> bool:
        conditions = (self._workload().get("status") or {}).get("conditions") or ()
        return any(c["type"] == "Admitted" and c["status"] == "True" for c in conditions)

    def _second_apply(self) -> str:
        before = {pod["metadata"]["uid"] for pod in self.pods(self.job)}
        self.apply(self.job)
        time.sleep(_PATIENCE)
        after = {pod["metadata"]["uid"] for pod in self.pods(self.job)}
        if before != after or not self._admitted():
            raise Differs("the run was evicted")
        self.workplace.reading("status", "--diff", f"{ENVIRONMENT}/{self.job}")
        return ""


def _owners(workload: Data) -> list[Data]:
    return list(workload["metadata"].get("ownerReferences") or ())
