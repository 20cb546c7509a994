"""Labels and annotations of pods and their owners that the cluster writes by itself."""

from trainwright.kinds import KINDS

_BY = (
    "deployment.kubernetes.io/",
    "kubectl.kubernetes.io/",
    *(domain for kind in KINDS.values() for domain in kind.domains),
)
_GENERATED = frozenset(
    {
        "controller-revision-hash",
        "controller-uid",
        "job-name",
        "kueue.x-k8s.io/podset",
        "kueue.x-k8s.io/tas",
        "kueue.x-k8s.io/workload",
        "pod-template-hash",
    }
)


def is_generated(key: str) -> bool:
    """Whether the cluster sets a label or an annotation by itself."""
    return key in _GENERATED or key.startswith(_BY)
