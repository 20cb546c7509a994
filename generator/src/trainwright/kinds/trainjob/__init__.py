"""Everything about a TrainJob of Kubeflow Trainer v2."""

from trainwright.datatypes.groupkind import RUNTIMES
from trainwright.kinds import labels
from trainwright.kinds.kind import Kind
from trainwright.kinds.trainjob.runtime import references

KIND = Kind(
    package=__name__,
    api_version="trainer.kubeflow.org/v1alpha1",
    kind="TrainJob",
    plural="trainjobs",
    integration="kueue/frameworks-trainjob",
    container="node",
    suspend="/spec/suspend",  # the rest goes into a list item of Kueue's own
    left_to_flavor=("tolerations",),  # a list, which Kueue's entry replaces
    filled=("/spec/runtimePatches/*/time",),
    written=(".spec.runtimePatches[]?.time",),  # stamped by Kubeflow Trainer's webhook
    written_by_kueue=('.spec.runtimePatches[]? | select(.manager == "kueue.x-k8s.io/manager")',),
    variables=("PET_", "JOB_COMPLETION_INDEX", "JOBSET_", "JOB_"),
    domains=(labels.DOMAIN, labels.SET_DOMAIN),
    name_labels=(labels.SET_NAME,),
    attempt_label=labels.SET_ATTEMPT,
    carrier=labels.SET_NAME,  # the JobSet has the name of the TrainJob
    refers=references,
    runtimes=RUNTIMES,
    described=True,
)
