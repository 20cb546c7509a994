"""Everything about a RayJob of KubeRay."""

from trainwright.kinds.kind import Kind

_CLUSTER = "/spec/rayClusterSpec"

KIND = Kind(
    package=__name__,
    api_version="ray.io/v1",
    kind="RayJob",
    plural="rayjobs",
    integration="kueue/frameworks-rayjob",
    container="ray",
    suspend="/spec/suspend",
    placed=(
        f"{_CLUSTER}/headGroupSpec/template",
        f"{_CLUSTER}/workerGroupSpecs/0/template",
        "/spec/submitterPodTemplate",
    ),
    variables=(
        "RAY_ADDRESS",
        "RAY_PORT",
        "RAY_IP",
        "RAY_CLUSTER_NAME",
        "RAY_CLOUD_INSTANCE_ID",
        "RAY_NODE_TYPE_NAME",
        "FQ_RAY_IP",
        "KUBERAY_",
    ),
    domains=("ray.io/",),
    name_labels=("ray.io/originated-from-cr-name",),
    group_label="ray.io/node-type",
    described=True,
    own_name_rule=True,
)
