"""Names: one run, one immutable object name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import is_dataclass
from typing import Any

from trainwright.model import Data, Environment, Job

MAX_NAME = 63  # a DNS label, RFC 1035; pods and services are named after the object

# What may change on a live object, or only says where the spec was found. Raising maxDuration
# must not restart a run: a Job's and a PyTorchJob's deadline is read from the object as it is
# now, and where it is fixed (JobSet, TrainJob) the change is refused and the run goes on.
_NOT_IDENTITY = frozenset(
    {"name", "environment", "source", "namespace", "state", "max_duration", "waivers"}
)
_PLACEMENT = frozenset({"resource", "tolerations", "node_selector"})


def spec_hash(job: Job, environment: Environment) -> str:
    """SHA-256 of the canonical effective spec, in hex.

    Order of keys, comments and defaults that are spelled out make no difference. Empty values
    are left out, so that a field added to the spec later leaves existing names alone.
    """
    canonical = _canonical(job, _NOT_IDENTITY)
    if job.pool:
        canonical["pool"] = {
            key: value
            for key, value in _canonical(job.pool, frozenset()).items()
            if key in _PLACEMENT
        }
    canonical["place"] = {
        "podSecurity": environment.pod_security,
        "serviceMesh": environment.service_mesh,
        "queueing": environment.queueing if job.queue or job.gang else "",
        "options": _plain(environment.targets[job.target]),
    }
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def object_name(job: Job, digest: str) -> str:
    """The name of the run's object: the job's name and eight digits of the spec's hash."""
    return f"{job.name}-{digest[:8]}"


def _canonical(value: Any, skip: frozenset[str]) -> dict[str, Data]:
    found = {}
    for name in value.__dataclass_fields__:  # `fields()` is slow in this hot place
        if name not in skip:
            plain = _plain(getattr(value, name))
            if plain not in (None, "", [], {}):
                found[name] = plain
    return found


def _plain(value: object) -> Data:
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    assert is_dataclass(value)
    return _canonical(value, frozenset())
