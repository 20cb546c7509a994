"""Everything about a JobSet of Kubernetes SIG Apps."""

from trainwright.kinds import labels
from trainwright.kinds.kind import Kind

KIND = Kind(
    package=__name__,
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    plural="jobsets",
    integration="kueue/frameworks-jobset",
    suspend="/spec/suspend",
    placed=("/spec/replicatedJobs/0/template/spec/template",),
    filled=(
        "/spec/successPolicy",
        "/spec/successPolicy/operator",
        "/spec/startupPolicy",
        "/spec/startupPolicy/startupPolicyOrder",
        "/spec/network",
        "/spec/network/enableDNSHostnames",
        "/spec/network/publishNotReadyAddresses",
        "/spec/failurePolicy/rules/*/name",
        "/spec/replicatedJobs/*/template/spec/completionMode",
        "/spec/replicatedJobs/*/template/spec/template/spec/restartPolicy",
    ),
    expires="/spec/ttlSecondsAfterFinished",
    variables=("JOB_COMPLETION_INDEX", "JOBSET_", "JOB_"),
    domains=(labels.DOMAIN, labels.SET_DOMAIN),
    name_labels=(labels.SET_NAME,),
    attempt_label=labels.SET_ATTEMPT,
    described=True,
    immutable_template=True,
    left_to_flavor=("nodeSelector", "tolerations"),
)
