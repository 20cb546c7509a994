"""What happens in the cluster to what git does not have any more, and the command that ends it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, mapping, text
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import PERSISTENTVOLUMECLAIM
from trainwright.datatypes.manifest import Manifest
from trainwright.objects.naming import application_name, job_of_run, kustomization, release
from trainwright.objects.sync_options import sync_options

ARGOCD_NAMESPACE = "argocd"
FLUX_NAMESPACE = "flux-system"
_COMPOSE = "Compose"  # no kind of a cluster

PRUNE = "kustomize.toolkit.fluxcd.io/prune"


class Departure(enum.StrEnum):
    """What happens to an object in the cluster when it is removed from git."""

    PRUNED = "pruned"
    CONFIRMED = "confirmed"  # pruned once it is confirmed in Argo CD
    KEPT = "kept"
    UNKNOWN = "unknown"  # no engine is named, and what applies the files may delete nothing


@dataclass(frozen=True, slots=True)
class End:
    """How an object ends that is removed from git; `command` ends it where no sync does."""

    how: Departure
    command: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether no GitOps engine deletes it."""
        return self.how in (Departure.KEPT, Departure.UNKNOWN)

    @property
    def until(self) -> str:
        """Until when it stays in the cluster; empty if a sync prunes it."""
        if self.how is Departure.CONFIRMED:
            return f"its deletion is confirmed{self.command and f' (`{self.command}`)'}"
        return f"`{self.command}`" if self.is_kept else ""

    def stays(self, name: str) -> str:
        """Return that it stays, and until when; empty if a sync prunes it."""
        return f"{name} stays in the cluster until {self.until}" if self.until else ""


def applying(was: Environment | None, now: Environment | None) -> Environment | None:
    """Return the environment by whose settings a merge takes objects out of git.

    Until wiring/ is applied after the merge, the cluster has that of before: an engine that prunes
    by it goes on to prune, though the merge says `prune: confirm` or names another engine.
    """
    if was is None or now is None:
        return now or was
    prunes = was.gitops.engine != "none" and was.gitops.prune == "immediate"
    gitops = replace(now.gitops, engine=was.gitops.engine, prune="immediate")
    return replace(now, gitops=gitops) if prunes else now


def leaving(metadata: Mapping[str, Data], environment: Environment | None) -> Departure:
    """Return what happens to an object that is removed from git.

    Where an environment is wired by us that decides, whichever engine the object was rendered for.
    """
    gitops = environment.gitops if environment else None
    engine = gitops.engine if gitops else "none"  # neither reads what is meant for the other
    if gitops and engine != "none" and gitops.prune == "confirm":
        return Departure.KEPT  # no wiring of ours prunes then
    annotations, labels = mapping(metadata.get("annotations")), mapping(metadata.get("labels"))
    options = sync_options(annotations) if engine != "flux" else frozenset[str]()
    kept = "disabled" in (annotations.get(PRUNE), labels.get(PRUNE)) and engine != "argocd"
    if kept or "Prune=false" in options:
        return Departure.KEPT
    if "Prune=confirm" in options:
        return Departure.CONFIRMED
    return Departure.UNKNOWN if engine == "none" else Departure.PRUNED


def end(manifest: Manifest, environment: Environment | None, run: Iterable[Manifest] = ()) -> End:
    """Return how an object ends that is removed from git, with all objects of its `run`."""
    objects = [(it.kind, it.name) for it in run if it.namespace == manifest.namespace]
    place = (manifest.kind, text(manifest.metadata.get("namespace")), manifest.name)
    return ended(place, manifest.metadata, environment, objects)


def ended(
    place: tuple[str, str, str],
    metadata: Mapping[str, Data],
    environment: Environment | None,
    run: Iterable[tuple[str, str]] = (),
) -> End:
    """Return the same by the kind, namespace and name of an object, and of others of its run."""
    how = leaving(metadata, environment)
    if how is Departure.CONFIRMED:
        return End(how, confirmation(place[2], environment))
    return End(how, "" if how is Departure.PRUNED else deletion(*place, environment, run))


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
    name = kustomization(environment, job_of_run(run))
    return f"kubectl --namespace {gitops.namespace or FLUX_NAMESPACE} delete kustomization/{name}"


def applied_by_job(environment: Environment) -> bool:
    """Whether Flux applies an environment by a Kustomization for each job."""
    gitops = environment.gitops
    return (gitops.engine, gitops.mode, gitops.applications) == ("flux", "rendered", "job")


def confirmation(run: str, environment: Environment | None) -> str:
    """Return the command that confirms the deletion of a run, or "" if no engine waits for that."""
    if environment is None or environment.gitops.engine != "argocd":
        return ""
    return f"argocd app confirm-deletion {application_name(environment, job_of_run(run))}"
