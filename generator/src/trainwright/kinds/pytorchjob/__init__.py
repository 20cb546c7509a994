"""Everything about a PyTorchJob of the training operator v1."""

from trainwright.kinds.kind import Kind

KIND = Kind(
    package=__name__,
    api_version="kubeflow.org/v1",
    kind="PyTorchJob",
    plural="pytorchjobs",
    integration="kueue/frameworks-pytorchjob",
    ready_when_running=True,
    container="pytorch",
    suspend="/spec/runPolicy/suspend",
    placed=(
        "/spec/pytorchReplicaSpecs/Master/template",
        "/spec/pytorchReplicaSpecs/Worker/template",
    ),
    expires="/spec/runPolicy/ttlSecondsAfterFinished",
    variables=("PET_", "MASTER_", "WORLD_SIZE", "RANK", "PYTHONUNBUFFERED"),
    domains=("training.kubeflow.org/",),
    name_labels=("training.kubeflow.org/job-name",),
    described=True,
    own_name_rule=True,
)
