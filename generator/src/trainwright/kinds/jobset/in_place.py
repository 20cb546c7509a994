"""Restarts in place: after a failure all containers start again, and the pods stay where they are.

An agent in each pod holds the training back until every pod has reached the same attempt, and
restarts its pod when another one has failed.

Facts: https://github.com/kubernetes-sigs/jobset/tree/v0.13.0/keps/467-InPlaceRestart,
cmd/in-place-restart-agent and pkg/webhooks/jobset_webhook.go of the same tag, and
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment, TargetOptions
from trainwright.datatypes.job import Container, Job, ValueFrom
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.volumes import Mount, Volume
from trainwright.kinds.jobset import KIND
from trainwright.kinds.target import Fact, Unsupported
from trainwright.objects.pods import command
from trainwright.objects.pods.pod import PERMANENT
from trainwright.rule_model.upstream import upstream

# Exit codes of the entrypoint that blame the node, so that a new pod may go to another one: a check
# before training failed, or the GPU or the network did. See docs/runtime.md.
_BAD_NODE = frozenset({172, 173})
AGENT = "in-place-restart-agent"
_RESTARTS = upstream("kubernetes/restart-all-containers")
_STRATEGY = upstream("jobset/in-place-restart")
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_PORT = 8081
# The probe only says whether the other pods have arrived. A probe that gives up ends the agent,
# which counts as a restart: a pod that waits for a node must not use up the retries of the run.
_PATIENCE = 2147483647


def is_on(job: Job, environment: Environment) -> bool:
    """Whether a run restarts in place, which takes a restart agent and at least one retry."""
    return job.retries > 0 and bool(environment.targets[job.target].restart_agent)


def exit_codes(job: Job) -> dict[str, Data]:
    """Return the exit codes of the training after which all containers restart where they are.

    After any other code the pod fails: its Job then ends the run, or makes a new pod, for which
    the other pods restart as well.
    """
    elsewhere = PERMANENT | _BAD_NODE if command.restart_policy(job) == "ExitCode" else ()
    return {"operator": "NotIn", "values": [0, *sorted(elsewhere)]}


def prepared(job: Job, environment: Environment) -> Job:
    """Return the job with the agent as its last sidecar, the only container with a token."""
    if not is_on(job, environment):
        return job
    options = environment.targets[job.target]
    token = Volume(name=AGENT, source={"projected": {"sources": _TOKEN}})
    return replace(
        job,
        volumes=(*job.volumes, token),
        sidecars=(*job.sidecars, _agent(options.restart_agent)),
        service_account=job.service_account if _has_own(job) else _account(options),
    )


# What Kubernetes mounts into pods with a token, but here only into the agent's container.
_TOKEN = [
    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
    {
        "configMap": {
            "name": "kube-root-ca.crt",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    },
    {
        "downwardAPI": {
            "items": [
                {
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }
            ]
        }
    },
]


def _agent(image: str) -> Container:
    """Return the sidecar by which JobSet restarts the containers of a pod in place."""
    annotation = "metadata.annotations['jobset.sigs.k8s.io/jobset-name']"
    return Container(
        name=AGENT,
        image=image,
        env={
            "JOBSET_NAME": _field(annotation),
            "POD_NAME": _field("metadata.name"),
        },
        mounts={AGENT: (Mount(mount_path=_ACCOUNT, read_only=True),)},
        parts={
            "restartPolicyRules": [
                {
                    "action": "RestartAllContainers",
                    "exitCodes": {"operator": "NotIn", "values": [0]},
                }
            ],
            "startupProbe": {
                "httpGet": {"path": "/barrier-is-down", "port": _PORT},
                "periodSeconds": 1,
                "failureThreshold": _PATIENCE,
            },
            # A quota may ask for them.
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"memory": "128Mi"},
            },
        },
    )


def _field(path: str) -> ValueFrom:
    return ValueFrom({"fieldRef": {"fieldPath": path}})


def unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuse a cluster that cannot restart pods in place, and an agent without network."""
    if not is_on(job, environment):
        return
    if job.network == "isolated":
        yield Unsupported(
            Pointer("/network"),
            "the agent of restarts in place asks the API server, which isolated pods cannot reach",
            "Remove network, or set retries: 0.",
        )
    jobset = environment.targets[job.target].version
    for row, version in ((_RESTARTS, environment.kubernetes_version), (_STRATEGY, jobset)):
        if version and not row.holds(version):
            yield Unsupported(
                Pointer("/retries"),
                f"restarts in place need {row.project} {row.since} with the feature gate "
                f"{row.gate}, and {environment.name} has {version}",
                "Remove targets.jobset.inPlaceRestart from environment.yaml, or set retries: 0.",
            )


def _has_own(job: Job) -> bool:
    """Whether a job names a service account, or brings one with the run."""
    return bool(job.service_account or job.create_service_account)


def _account(options: TargetOptions) -> str:
    """Return the agent's service account, by default that of JobSet's own example.

    See site/static/examples/in-place-restart/service-account.yaml.
    """
    return options.restart_account or "jobset-in-place-restart"


def _agents(job: Job, environment: Environment) -> Data:
    """Return the restart agent's image and, unless the job has an account of its own, the service
    account that environment.yaml gives it; None if the run does not restart in place.
    """
    if not is_on(job, environment):
        return None
    options = environment.targets[job.target]
    own = {} if _has_own(job) else {"serviceAccount": _account(options)}
    return {"image": options.restart_agent, **own}


FACT = Fact(("targets", KIND.name, "inPlaceRestart"), _agents)
