"""Argo CD applies the rendered files as they are in git."""

from __future__ import annotations

from itertools import chain

from trainwright.gitops.wiring import argocd, charts
from trainwright.gitops.wiring.wiring import Files, Site, Wiring
from trainwright.kinds import NAMED
from trainwright.runs.record import VALUES_FILE


def _build(site: Site, namespace: str) -> Files:
    """Return an AppProject, and one Application or an ApplicationSet of one for each job."""
    project = argocd.project(site, namespace, (site.gitops.repository.url,))
    files = {"appproject.yaml": project} if project else {}
    git = argocd.git_source(site)
    if site.gitops.applications == "environment":
        # Its kustomization.yaml lists exactly the manifests.
        source = {"source": {**git, "path": site.rendered}}
        application = argocd.application(site, namespace, source, f"/{site.rendered}")
        return {**files, "application.yaml": (application,)}
    directory = {"exclude": _no_manifests(site)}
    source = {"source": {**git, "path": argocd.folder(site), "directory": directory}}
    applications = argocd.applications(site, namespace, argocd.of_values(site), source)
    objects = argocd.objects(site, namespace)
    files |= {"objects.yaml": objects} if objects else {}
    return {**files, "applicationset.yaml": (applications,)}


def _no_manifests(site: Site) -> str:
    """Return a glob for the files beside the manifests that are not Kubernetes objects."""
    kinds = (NAMED[name] for place in site.environments for name in place.targets)
    names = sorted({VALUES_FILE, *(kind.target.template for kind in kinds if not kind.is_served)})
    return names[0] if len(names) == 1 else f"{{{','.join(names)}}}"


WIRING = Wiring(
    engine="argocd",
    mode="rendered",
    summary="AppProject, and an ApplicationSet with an Application a job (or one Application).",
    namespace=argocd.NAMESPACE,
    build=_build,
    requires=argocd.requires,
    unfit=lambda site: chain(argocd.unfit(site), charts.not_needed(site)),
)
