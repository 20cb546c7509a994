"""Argo CD objects of both modes: how a training run is synced, and what a project may do.

Facts: argoproj/argo-cd v3.5.1, docs/user-guide and docs/operator-manual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import GitOps, Verify
from trainwright.datatypes.pointer import Pointer
from trainwright.gitops.wiring import kinds
from trainwright.gitops.wiring.wiring import InvalidSetting, Requirement, Site
from trainwright.kinds.kind import Kind
from trainwright.objects.departure import ARGOCD_NAMESPACE
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.naming import application_name, bounded
from trainwright.runs.record import RECORD_FILE, VALUES_FILE

NAMESPACE = ARGOCD_NAMESPACE
_API = "argoproj.io/v1alpha1"
_IN_CLUSTER = "https://kubernetes.default.svc"
_FINALIZER = "resources-finalizer.argocd.argoproj.io"
_APPROVAL = "argocd.argoproj.io/deletion-approved"  # how people confirm that an object may go
_JOB = "{{.path.basename}}"

_SYNC_POLICY: Mapping[str, Data] = {
    # Neither Force nor Replace, which run a job again at each sync; nor PruneLast, which makes the
    # sync wait until all runs have ended.
    "syncOptions": [
        "ServerSideApply=true",
        "RespectIgnoreDifferences=true",
        "ApplyOutOfSyncOnly=true",
        "FailOnSharedResource=true",
    ],
    "retry": {
        "limit": 5,
        # Without it a retry applies the commit that failed, even when one that fixes it is there.
        "refresh": True,
        "backoff": {"duration": "30s", "factor": 2, "maxDuration": "10m"},
    },
}


def sync_policy(site: Site) -> dict[str, Data]:
    """Return how an Application is synced. No automated sync deletes anything, unless configured.

    With Prune=confirm a sync waits for people, fixed to the commit that it began with: it misses a
    revert or another edit meanwhile. Once they confirm, it would delete the run that is in git and
    start the one that was reverted.
    https://github.com/argoproj/argo-cd/blob/v3.5.1/controller/appcontroller.go#L1537
    """
    prune = site.gitops.prune == "immediate"
    return {
        "automated": {"prune": prune, "selfHeal": True, "allowEmpty": False},
        **_SYNC_POLICY,
    }


def project(site: Site, namespace: str, sources: tuple[str, ...]) -> tuple[dict[str, Data], ...]:
    """Return an AppProject for these repositories, this namespace and these kinds, nothing else.

    Return () if the environment names an existing project.
    """
    if site.gitops.project:
        return ()
    environment = site.environment
    return (
        {
            "apiVersion": _API,
            "kind": "AppProject",
            "metadata": {"name": site.name, "namespace": namespace, "labels": site.labels},
            "spec": {
                "description": f"Training runs of the environment {environment.name}",
                "sourceRepos": sorted(set(sources)),
                "destinations": [_destination(site, name) for name in site.namespaces],
                **_signed(site),
                "clusterResourceWhitelist": [],
                "namespaceResourceWhitelist": [
                    {"group": group, "kind": kind}
                    for group, kind in sorted(
                        {*kinds.rendered(*site.environments), *site.objects, *site.adopted}
                    )
                ],
            },
        },
    )


def _signed(site: Site) -> dict[str, Data]:
    """Return what makes Argo CD require signed commits, if the environment requires them.

    Argo CD before 3.5 has only one list of keys, for all repositories of the project.
    """
    policies = [
        {
            "repos": [{"url": url}],
            "gpg": {"mode": verify.mode or "head", "keys": list(verify.keys)},
        }
        for url, verify in sorted(_verified(site).items())
    ]
    if not policies:
        return {}
    if not _INTEGRITY.is_met(site.gitops.version):
        keys = sorted({key for verify in _verified(site).values() for key in verify.keys})
        return {"signatureKeys": [{"keyID": key} for key in keys]}
    return {"sourceIntegrity": {"git": {"policies": policies}}}


def _verified(site: Site) -> dict[str, Verify]:
    """Return the git repositories in which commits have to be signed, each with one policy."""
    chart, own = site.gitops.chart, site.gitops.repository
    charts = (chart.url or own.url, *(run.chart.url for run in site.runs if run.chart.path))
    by_url: dict[str, Verify | None] = dict.fromkeys(charts if chart.path else (), chart.verify)
    by_url[own.url] = own.verify or by_url.get(own.url)
    return {url: verify for url, verify in by_url.items() if verify}


def _destination(site: Site, namespace: str) -> dict[str, Data]:
    chosen = site.gitops.destination
    cluster = {"name": chosen.name} if chosen.name else {"server": chosen.server or _IN_CLUSTER}
    return {**cluster, "namespace": namespace}


def application(
    site: Site, namespace: str, source: Mapping[str, Data], paths: str
) -> dict[str, Data]:
    """Return one Application for the whole environment; only changes in `paths` concern it.

    It has no finalizer, so deleting the Application by mistake does not end running training.
    """
    metadata = {
        "name": site.name,
        "namespace": namespace,
        "labels": site.labels,
        "annotations": _annotations(site, paths),
    }
    spec = _spec(site, source)
    return {"apiVersion": _API, "kind": "Application", "metadata": metadata, "spec": spec}


def objects(site: Site, namespace: str) -> tuple[dict[str, Data], ...]:
    """Return an Application for the environment's own objects, if any: they belong to no run.

    What leaves git stays in the cluster until it is pruned by hand, unless prune: immediate is set.
    """
    if not site.objects:
        return ()
    source = {"source": {**git_source(site), "path": site.copies}}
    manifest = application(site, namespace, source, f"/{site.copies}")
    manifest["metadata"]["name"] = bounded(f"{site.name}-objects")
    manifest["spec"].pop("ignoreDifferences", None)  # those are of kinds of runs
    return (manifest,)


def of_values(site: Site) -> dict[str, Data]:
    """Return a generator of parameters: each job that has rendered files."""
    return _git_files(site, VALUES_FILE)


def of_records(site: Site) -> dict[str, Data]:
    """Return a generator of parameters: the record of each run that has rendered files.

    Argo CD reads a file as YAML, which includes JSON, whatever its extension.
    https://github.com/argoproj/argo-cd/blob/v3.5.1/applicationset/generators/git.go
    """
    rendered = {"key": "state", "operator": "In", "values": ["active", "suspended"]}
    return {**_git_files(site, RECORD_FILE), "selector": {"matchExpressions": [rendered]}}


def _git_files(site: Site, name: str) -> dict[str, Data]:
    """Return a generator with one item for each job that has a file of this name."""
    repository = site.gitops.repository
    return {
        "git": {
            "repoURL": repository.url,
            "revision": repository.revision,
            "files": [{"path": f"{site.rendered}/*/{name}"}],
        }
    }


def applications(
    site: Site,
    namespace: str,
    generator: Mapping[str, Data],
    source: Mapping[str, Data],
    target: str = "",
) -> dict[str, Data]:
    """Return an ApplicationSet with an Application for each job that a generator finds.

    A run that failed, or that the API refuses, does not hold up the others. When a job leaves git,
    its Application is deleted. What that applied is deleted with it only if `prune` is immediate:
    otherwise it stays, and belongs to the same Application again when the job comes back. `target`
    is a template for the namespace of a run, if its manifests do not name it.
    """
    immediate = site.gitops.prune == "immediate"
    departure: dict[str, Data] = (
        # The controller takes away annotations that it does not know: people's approval.
        {"preservedFields": {"annotations": [_APPROVAL]}}
        if immediate
        # Or it adds the finalizer to every Application that has none.
        else {"syncPolicy": {"preserveResourcesOnDeletion": True}}
    )
    template = {
        "metadata": {
            "name": f"{site.name}-{_JOB}",
            "labels": {**site.labels, "app.kubernetes.io/name": _JOB},
            "annotations": _annotations(site, f"/{folder(site)}"),
            **({"finalizers": [_FINALIZER]} if immediate else {}),
        },
        "spec": _spec(site, source, target),
    }
    return {
        "apiVersion": _API,
        "kind": "ApplicationSet",
        "metadata": {"name": site.name, "namespace": namespace, "labels": site.labels},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [dict(generator)],
            **departure,
            "template": template,
        },
    }


def adoption(site: Site, job: str, kind: Kind, namespace: str, name: str) -> str:
    """Return the command that makes Argo CD treat a run's object as one that it applied.

    It fills its own mark in, for itself alone, from a label that our objects have, and so never
    writes it: https://github.com/argoproj/argo-cd/blob/v3.5.1/util/argo/resource_tracking.go#L262
    """
    what = f"{kind.group}/{kind.kind}:{namespace}/{name}"
    mark = f"argocd.argoproj.io/tracking-id={application_name(site.environment, job)}:{what}"
    return (
        f"kubectl --namespace {namespace} annotate {kind.kind.lower()}.{kind.group}/{name} {mark}"
    )


def folder(site: Site) -> str:
    """Return the folder of a job's rendered files, as a template in an ApplicationSet."""
    return f"{site.rendered}/{_JOB}"


def git_source(site: Site) -> dict[str, Data]:
    """Return the repository of the environments."""
    repository = site.gitops.repository
    return {"repoURL": repository.url, "targetRevision": repository.revision}


def _annotations(site: Site, paths: str) -> dict[str, str]:
    return {
        # Only this diff knows how the API server fills in defaults and merges lists by key.
        "argocd.argoproj.io/compare-options": "ServerSideDiff=true",
        # Commits that touch none of these paths need not be rendered again.
        "argocd.argoproj.io/manifest-generate-paths": paths,
        **{
            f"notifications.argoproj.io/subscribe.{trigger}.{service}": ";".join(to)
            for service, triggers in sorted(site.gitops.notifications.items())
            for trigger, to in sorted(triggers.items())
        },
    }


def _spec(site: Site, source: Mapping[str, Data], target: str = "") -> dict[str, Data]:
    ignored = list(ignored_differences(site))
    return {
        "project": site.gitops.project or site.name,
        **source,
        "destination": _destination(site, target or site.environment.namespace),
        "syncPolicy": sync_policy(site),
        **({"ignoreDifferences": ignored} if ignored else {}),
    }


def ignored_differences(site: Site) -> Iterator[dict[str, Data]]:
    """Yield exactly the fields that controllers write in this environment, and none set in git.

    Kueue writes only into objects with a queue: `suspend` of other runs is set in git.
    """
    for kind in kinds.training(*site.environments):
        by_kueue = _written_by_kueue(kind) if site.queued and kind.suspend else ()
        expressions = [*by_kueue, *kind.written, *(kind.written_by_kueue if site.queued else ())]
        if expressions:
            yield {
                "group": kind.group,
                "kind": kind.kind,
                "jqPathExpressions": expressions,
            }


def _written_by_kueue(kind: Kind) -> Iterator[str]:
    guard = f'select(.metadata.labels["{QUEUE_LABEL}"])'
    yield f"{guard} | {_jq(kind.suspend)}"
    placement = ", ".join(f".{field}" for field in kinds.PLACEMENT)
    workload = '.annotations["kueue.x-k8s.io/workload"]'
    labels = '(.labels | objects | .[keys[] | select(startswith("kueue.x-k8s.io/"))])'
    for template in map(_jq, kind.placed):
        yield f"{guard} | {template}.spec | {placement}"
        yield f"{guard} | {template}.metadata | {workload}, {labels}"


def _jq(pointer: str) -> str:
    return "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in Pointer(pointer).parts)


_INTEGRITY = Requirement("3.5", "sourceIntegrity of an AppProject")


def requires(site: Site) -> Iterator[Requirement]:
    """Yield what Argo CD has to support in either mode.

    https://github.com/argoproj/argo-cd/blob/v3.2.0/pkg/apis/application/v1alpha1/types.go
    """
    yield Requirement("3.2", "syncPolicy.retry.refresh")
    verified = _verified(site)
    # signatureKeys would also require a signature on a chart from a registry.
    if verified and (
        site.gitops.mode == "chart" or any(v.mode == "strict" for v in verified.values())
    ):
        yield _INTEGRITY


def unfit(site: Site) -> Iterator[InvalidSetting]:
    """Yield settings that are missing, or that only Flux reads."""
    gitops = site.gitops
    url = gitops.repository.url
    if not url:
        yield MISSING_URL
    if url.startswith("oci://"):
        message = "Argo CD reads environments from a git repository, and this is an OCI artifact"
        yield InvalidSetting(
            Pointer("/repository/url"), message, "Use https:// or ssh://, or engine: flux."
        )
    for path, secret in (
        (Pointer("/repository/secret"), gitops.repository.secret),
        (Pointer("/chart/secret"), gitops.chart.secret),
    ):
        if secret:
            remedy = "Remove it: Argo CD finds the Secrets of repositories by their label."
            yield InvalidSetting(path, f"Argo CD does not read {path.dotted}", remedy)
    yield from _unfit_signatures(gitops)
    if gitops.service_account:
        message = "Argo CD does not read serviceAccount"
        yield InvalidSetting(
            Pointer("/serviceAccount"), message, "Remove it: an AppProject lists what is allowed."
        )


def _unfit_signatures(gitops: GitOps) -> Iterator[InvalidSetting]:
    """Yield what Argo CD would not verify: it only has GnuPG keys, for commits and tags of git."""
    of_git = "Remove it: Argo CD verifies commits and tags, and by keys alone."
    for at, verify in signed_sources(gitops):
        unread = (("secret", verify.secret), ("identities", verify.identities))
        for name in (name for name, value in (*unread, ("provider", verify.provider)) if value):
            path = at / name
            yield InvalidSetting(path, f"Argo CD does not read {path.dotted}", of_git)
        if not verify.keys:
            remedy = "Name the IDs of the keys that may sign."
            yield InvalidSetting(at, "Argo CD knows who may sign by verify.keys", remedy)
        if gitops.project:
            message = f"the AppProject {gitops.project} is not written here, and decides on that"
            remedy = "Write its spec.sourceIntegrity, and remove verify; or remove project."
            yield InvalidSetting(at, message, remedy)
    if gitops.chart.verify and gitops.chart.oci:
        message = "Argo CD verifies no chart from a registry"
        yield InvalidSetting(Pointer("/chart/verify"), message, of_git)


def signed_sources(gitops: GitOps) -> Iterator[tuple[Pointer, Verify]]:
    """Yield where signatures are required, with the settings that require them."""
    for at, verify in (
        (Pointer("/repository/verify"), gitops.repository.verify),
        (Pointer("/chart/verify"), gitops.chart.verify),
    ):
        if verify:
            yield at, verify


MISSING_URL = InvalidSetting(
    Pointer("/repository/url"),
    "the repository in which the engine finds this environment is not set",
    "Write gitops.repository.url here, or for all environments in environments/defaults.yaml.",
)
