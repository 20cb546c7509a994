"""Facts of an environment that decide a job's rendered bytes: each kind lists those it depends on.

Values that render the same count as one, so that no run's name depends on how a fact is spelled:
`podSecurity: privileged` is `baseline`, version 2.3.1 is 2.3.
"""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.kinds import queueing
from trainwright.kinds.target import POOL, Fact
from trainwright.objects.pods import code


def _resource(job: Job, _: Environment) -> Data:
    return job.pool.resource if job.pool and job.resources.gpu else None


def _node_selector(job: Job, _: Environment) -> Data:
    return dict(job.pool.node_selector) if job.pool else None


def _tolerations(job: Job, _: Environment) -> Data:
    return [dict(toleration) for toleration in job.pool.tolerations] if job.pool else None


def _queueing(job: Job, environment: Environment) -> Data:
    """Return what queues the job or starts its pods together, or None if it requests neither."""
    if queueing.in_kueue(job, environment) or queueing.gang_scheduler(job, environment):
        return environment.queueing
    return "none" if job.queue or job.gang else None


def _pod_security(_: Job, environment: Environment) -> Data:
    return "restricted" if environment.pod_security == "restricted" else "baseline"


def _unless_flavored(fact: Fact) -> Fact:
    """Return the fact, but with the value None where a ResourceFlavor places the pods."""
    return Fact(
        fact.path,
        lambda job, place: None if queueing.in_kueue(job, place) else fact.value(job, place),
    )


RESOURCE = Fact(("pools", POOL, "resource"), _resource)
NODE_SELECTOR = Fact(("pools", POOL, "nodeSelector"), _node_selector)
TOLERATIONS = Fact(("pools", POOL, "tolerations"), _tolerations)
QUEUEING = Fact(("queueing",), _queueing)
POD_SECURITY = Fact(("podSecurity",), _pod_security)
SERVICE_MESH = Fact(("serviceMesh",), lambda _, environment: environment.service_mesh)
GIT_SYNC = Fact(("images", "gitSync"), code.git_sync)

PODS = (RESOURCE, NODE_SELECTOR, TOLERATIONS, POD_SECURITY, SERVICE_MESH, GIT_SYNC)
# For kinds that leave some of it to Kueue's flavors, or all that places the pods.
TOLERATED_PODS = tuple(_unless_flavored(f) if f is TOLERATIONS else f for f in PODS)
FLAVORED_PODS = tuple(_unless_flavored(f) if f is NODE_SELECTOR else f for f in TOLERATED_PODS)
