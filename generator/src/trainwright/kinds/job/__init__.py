"""Everything about a Job of Kubernetes itself."""

from trainwright.kinds import labels
from trainwright.kinds.kind import Kind

KIND = Kind(
    package=__name__,
    api_version="batch/v1",
    kind="Job",
    plural="jobs",
    integration="kueue/frameworks-job",
    suspend="/spec/suspend",
    placed=("/spec/template",),
    expires="/spec/ttlSecondsAfterFinished",
    variables=("JOB_COMPLETION_INDEX",),
    domains=(labels.DOMAIN,),
    name_labels=labels.JOB_NAMES,
    awaited=True,
    immutable_template=True,
    left_to_flavor=("nodeSelector", "tolerations"),
)
