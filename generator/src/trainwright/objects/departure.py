"""Commands that end a run which has left git, where no GitOps engine does so by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.groupkind import PERSISTENTVOLUMECLAIM
from trainwright.objects.naming import application_name, kustomization, release

FLUX_NAMESPACE = "flux-system"
_COMPOSE = "Compose"  # no kind of a cluster
_MARK = re.compile(r"-[0-9a-f]{8}\Z")  # behind the name of the job, in that of its run


def deletion(
    kind: str,
    namespace: str,
    name: str,
    environment: Environment | None,
    run: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the command that deletes an object of a run, or the release that renders it.

    It names the other objects of the `run` as well, by kind and name. What does not bear the name
    of the run is left out: the claims of a job outlast its runs.
    """
    if kind == PERSISTENTVOLUMECLAIM.kind:
        run = ()
    if kind == _COMPOSE:
        return f"docker compose --project-name {name} down"
    gitops = environment.gitops if environment else None
    released = kind != PERSISTENTVOLUMECLAIM.kind
    if environment and gitops and (gitops.engine, gitops.mode) == ("flux", "chart") and released:
        namespace = gitops.namespace or FLUX_NAMESPACE
        kind, name, run = "HelmRelease", release(environment, name), ()
    others = [(k, n) for k, n in run if name in n and (k, n) != (kind, name)]
    objects = " ".join(f"{k.lower()}/{n}" for k, n in ((kind, name), *others))
    option = f" --namespace {namespace}" if namespace else ""
    return f"kubectl{option} delete {objects}"


def pruning(run: str, environment: Environment | None) -> str:
    """Return the command that has Flux prune a run whose job has left git, or "" if none is needed.

    The Kustomization of such a job leaves git as well. In the cluster it stays, and fails for want
    of its path, by which nothing is pruned; its own deletion is what prunes.
    """
    if environment is None or environment.gitops.prune != "immediate":
        return ""
    return kustomization_deletion(run, environment)


def kustomization_deletion(run: str, environment: Environment | None) -> str:
    """Return the command that deletes the Kustomization of a run's job, or "" if it has none."""
    if environment is None or not applied_by_job(environment):
        return ""
    gitops = environment.gitops
    name = kustomization(environment, _MARK.sub("", run))
    return f"kubectl --namespace {gitops.namespace or FLUX_NAMESPACE} delete kustomization/{name}"


def applied_by_job(environment: Environment) -> bool:
    """Whether Flux applies an environment by a Kustomization for each job."""
    gitops = environment.gitops
    return (gitops.engine, gitops.mode, gitops.applications) == ("flux", "rendered", "job")


def confirmation(run: str, environment: Environment | None) -> str:
    """Return the command that confirms the deletion of a run, or "" if no engine waits for that."""
    if environment is None or environment.gitops.engine != "argocd":
        return ""
    return f"argocd app confirm-deletion {application_name(environment, _MARK.sub('', run))}"
