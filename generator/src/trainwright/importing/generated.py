"""Labels and annotations that people do not write: those of controllers, and of GitOps engines.

An engine's mark names the engine that an object belongs to, or what a sync does to it. Copied to
another object, it would give that to an engine without it in git, or make each sync delete it.
"""

from trainwright.kinds import KINDS
from trainwright.rules.gitops import HOOKS

_BY = (
    "deployment.kubernetes.io/",
    "kubectl.kubernetes.io/",
    *(domain for kind in KINDS.values() for domain in kind.domains),
)
_GENERATED = frozenset(
    "controller-revision-hash controller-uid job-name kueue.x-k8s.io/podset kueue.x-k8s.io/tas "
    "kueue.x-k8s.io/workload pod-template-hash".split()
)
# What applies objects or keeps them in a release, and the domains of its labels and annotations.
# Sources: Argo CD docs/user-guide/annotations-and-labels.md, fluxcd.io/flux/components,
# helm.sh/docs/topics/charts_hooks, carvel.dev/kapp, KEP-3659 (ApplySet), fleet.rancher.io.
_ENGINES = {
    "Argo CD": ("argocd.argoproj.io/",),
    "Fleet": ("fleet.cattle.io/", "objectset.rio.cattle.io/"),
    "Flux": (
        *("fluxcd.io/", "helm.toolkit.fluxcd.io/", "kustomize.toolkit.fluxcd.io/"),
        *("reconcile.fluxcd.io/", "ssa.fluxcd.io/"),
    ),
    "Helm": ("helm.sh/", "meta.helm.sh/"),
    "kapp": ("kapp.k14s.io/",),
    "kpt": ("config.k8s.io/",),
    "kubectl": ("applyset.kubernetes.io/",),
    "kustomize": ("config.kubernetes.io/", "internal.config.kubernetes.io/"),
}


def is_generated(key: str) -> bool:
    """Whether a label or an annotation is written by a cluster or an engine, not by people."""
    return key in _GENERATED or key.startswith(_BY) or bool(engine_of(key))


def engine_of(key: str) -> str:
    """Return the engine whose mark a label or an annotation is, or ""."""
    return next((engine for engine, domains in _ENGINES.items() if key.startswith(domains)), "")


def is_hook(key: str) -> bool:
    """Whether an annotation makes its object a hook, which each sync or release makes anew."""
    return key in HOOKS
