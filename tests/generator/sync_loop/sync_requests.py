"""What people asked for: an account of every job's own file, kept without the product.

A run is asked for when a job's file appears, when a line of it changes and the value that the job
trains with changes with it, when its line leaves the ledger, or when it revives what was cancelled.
Nothing else may start, replace or end training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import yaml
from sync_cluster import Identity

Tree: TypeAlias = Mapping[str, bytes]  # a whole repository: contents by path
Path: TypeAlias = tuple[str, ...]
Leaves: TypeAlias = Mapping[Path, str]

ENVIRONMENT = "environments/prod/environment.yaml"
LEDGER = "environments/prod/ledger.yaml"
DEFAULTS = "environments/defaults.yaml"
JOBS = "environments/prod/jobs/"
_ABOUT_THE_FILE = frozenset({"apiVersion", "kind", "name", "description", "waivers"})
# How a run is operated: an edit is laid onto it, or waits for the next one.
_IN_PLACE = frozenset(
    "state maxDuration queue queuePriority priorityClass retries gracePeriod labels annotations".split()
)
_APART = _ABOUT_THE_FILE | _IN_PLACE | {"extends"}
_STATE = ("state",)
_SAME = {"1000m": "1", "120m": "2h", "1m": "60s", "512Mi": "auto"}  # other spellings
_BUILT_IN = {
    "run": 1,
    "state": "active",
    "gracePeriod": "60s",
    "retries": 0,
    "backend": "auto",
    "shm": "auto",  # half of the memory that they all have
    "terminationMessagePolicy": "FallbackToLogsOnError",
    "preflight": {"shm": True, "names": False},
    "security": {"privileged": False},
}


def jobs(tree: Tree) -> frozenset[str]:
    """The names of all jobs."""
    return frozenset(
        path.removeprefix(JOBS).removesuffix(".yaml") for path in tree if path.startswith(JOBS)
    )


def own_path(job: str) -> str:
    return f"{JOBS}{job}.yaml"


def spec(tree: Tree, job: str) -> Mapping[str, Any]:
    """All that a job says and inherits, merged."""
    data = dict(_BUILT_IN)
    for path in (DEFAULTS, ENVIRONMENT):
        data = _merged(data, _data(tree.get(path, b"")).get("defaults") or {})
    data = _merged(_merged(data, _base(tree, job)), _data(tree[own_path(job)]))
    if data.get("queue") and data["target"] in ("jobset", "job"):
        data.pop("pool", None)  # a ResourceFlavor places their pods
    return data


def _base(tree: Tree, job: str) -> dict[str, Any]:
    """What a job extends."""
    folder, _, name = str(_data(tree[own_path(job)]).get("extends", "")).partition("/")
    return _data(tree.get(f"environments/{folder}/jobs/{name}.yaml", b""))


def retired(tree: Tree, job: str) -> frozenset[str]:
    """The finished runs of a job."""
    runs = _data(tree.get(LEDGER, b"")).get("runs") or {}
    return frozenset(name for name, entry in runs.items() if entry["job"] == job)


@cache
def _data(text: bytes) -> dict[str, Any]:
    return yaml.load(text, yaml.CSafeLoader) or {}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(below)
    for key, value in above.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = _merged(found[key], value)
        else:
            found[key] = value
    return found


def _leaves(data: Any, path: Path = ()) -> dict[Path, str]:
    if not isinstance(data, dict):
        return {path: _SAME.get(str(data), str(data))}
    found: dict[Path, str] = {}
    for key, value in data.items():
        found |= _leaves(value, (*path, key))
    return found


@dataclass
class Requests:
    """The requests for runs of one job, numbered.

    `run` is what the last one was to train with, `before` the one before it, `runs` all of them by what is rendered for them. `cancelled` and `over` say whether that may end:
    it was cancelled, in whatever file, or written into the ledger, or the job's file is gone.
    """

    count: int = 0
    own: Leaves = field(default_factory=dict)
    run: Leaves = field(default_factory=dict)
    before: Leaves = field(default_factory=dict)
    runs: dict[frozenset[Identity], Leaves] = field(default_factory=dict)
    cancelled: bool = False
    over: bool = False
    gone: int = 0  # how many there were when the job's file went the last time
    finished: dict[str, Leaves] = field(default_factory=dict)  # what ran, by name in the ledger
    retired: dict[str, Leaves] = field(default_factory=dict)  # the same of all that ever were in it

    def read(self, tree: Tree, job: str, rendered: frozenset[Identity], *, by_hand: bool) -> bool:
        """Note a commit; whether another run has to begin.

        `by_hand` when people put back objects that were `rendered` before: theirs is the run then.
        """
        if own_path(job) not in tree:
            self.own, self.over, self.gone = {}, True, self.count
            return False
        written, data = _data(tree[own_path(job)]), spec(tree, job)
        written = {key: value for key, value in written.items() if key != "pool" or key in data}
        own, whole, known = _leaves(written), _leaves(data), retired(tree, job)
        other = self._is_other(own, whole, _leaves(_base(tree, job)))
        revived = self.cancelled and self._revives(own, whole)
        self.before = self.run
        if by_hand or not self.own or other or revived or set(self.finished) - known:
            self.count += 1
            self.run = self.runs.get(rendered, whole) if by_hand else whole
            self.cancelled, self.over = False, False
            self.runs[rendered] = self.run
        for name in known - set(self.finished):  # a line that comes back is of the run it was of
            ran = self.retired.setdefault(name, own)
            self.over |= _meaning(ran) == _meaning(own)
        self.finished = {name: self.retired[name] for name in known}
        begins = bool(self.own) and not by_hand and self._demands(own)
        self.own = own
        self.cancelled |= data["state"] == "cancelled"
        return begins and not self.ended and not self.has_finished

    def _is_other(self, own: Leaves, whole: Leaves, base: Leaves) -> bool:
        """Whether lines of the job's own file changed, and with them what it trains."""
        paths = {*own, *self.own}
        changed = {path for path in paths if own.get(path) != self.own.get(path)}
        if ("extends",) in changed:  # what the base says, and what is said no more
            changed |= {*base, *(self.run.keys() - whole.keys())}
        changed = {path for path in changed if path[0] not in _APART}
        return any(whole.get(path) != self.run.get(path) for path in changed)

    def _demands(self, own: Leaves) -> bool:
        """Whether a line of the job's own file says now what the run before did not train with."""
        changed = {path for path, value in own.items() if self.own.get(path) != value}
        return any(own[p] != self.before.get(p) for p in changed if p[0] not in _APART)

    def _revives(self, own: Leaves, whole: Leaves) -> bool:
        return own.get(_STATE) != self.own.get(_STATE) and whole[_STATE] != "cancelled"

    @property
    def ended(self) -> bool:
        """Whether what was last asked for may end, or need not be there."""
        return self.cancelled or self.over

    @property
    def has_finished(self) -> bool:
        """Whether the job's file says what has finished before."""
        return any(_meaning(own) == _meaning(self.own) for own in self.finished.values())


def _meaning(own: Leaves) -> Leaves:
    return {path: value for path, value in own.items() if path[0] not in _APART - {"extends"}}
