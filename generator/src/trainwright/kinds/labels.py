"""Labels that the Job controller writes, and those of controllers that build on it."""

DOMAIN = "batch.kubernetes.io/"
SET_DOMAIN = "jobset.sigs.k8s.io/"
SET_NAME = f"{SET_DOMAIN}jobset-name"
SET_ATTEMPT = f"{SET_DOMAIN}restart-attempt"
JOB_NAMES = (f"{DOMAIN}job-name", "job-name")
# https://kubernetes.io/docs/reference/labels-annotations-taints/#batchkubernetesio-controller-uid
OF_JOBS = (
    "controller-uid",
    "job-name",
    *(f"{DOMAIN}{name}" for name in ("controller-uid", "job-name", "job-completion-index")),
)
OF_SETS = (
    *OF_JOBS,
    *(
        f"{SET_DOMAIN}{name}"
        for name in (
            "jobset-name",
            "jobset-uid",
            "replicatedjob-name",
            "replicatedjob-replicas",
            "global-replicas",
            "restart-attempt",
            "job-index",
            "job-key",
            "job-global-index",
        )
    ),
)
