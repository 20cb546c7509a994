"""Adopted objects: runs that stay the objects they were before their job, of any training kind.

No chart renders them, so no job can become one. Most of these kinds are not our own, so there is
only what finds them in a cluster and suspends them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.groupkind import GroupKind
from trainwright.kinds.kind import Kind

KIND = Kind(package=__name__, api_version="", kind="", plural="objects")

_RUN_POLICY = "/spec/runPolicy/suspend"
_JOB_NAME = ("training.kubeflow.org/job-name",)


def _others() -> Iterator[Kind]:
    # https://github.com/kubeflow/mpi-operator, https://github.com/kubeflow/trainer/tree/release-1.9
    yield _of("kubeflow.org/v2beta1", "MPIJob", _RUN_POLICY, _JOB_NAME)
    for name in ("TFJob", "XGBoostJob", "PaddleJob", "JAXJob"):
        yield _of("kubeflow.org/v1", name, _RUN_POLICY, _JOB_NAME)
    # https://docs.ray.io/en/latest/cluster/kubernetes/k8s-ecosystem/kueue.html
    yield _of("ray.io/v1", "RayCluster", "/spec/suspend", ("ray.io/cluster",))
    # https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/
    lws = ("leaderworkerset.sigs.k8s.io/name",)
    yield _of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "", lws)
    yield _of("apps/v1", "StatefulSet")
    yield _of("batch.volcano.sh/v1alpha1", "Job", "", ("volcano.sh/job-name",))
    # https://project-codeflare.github.io/appwrapper/
    wrapper = ("workload.codeflare.dev/appwrapper",)
    yield _of("workload.codeflare.dev/v1beta2", "AppWrapper", "/spec/suspend", wrapper)
    # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html
    yield _of("sagemaker.amazonaws.com/v1", "HyperPodPyTorchJob", _RUN_POLICY)


def _of(version: str, kind: str, suspend: str = "", labels: tuple[str, ...] = ()) -> Kind:
    return Kind(
        package=__name__,
        api_version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        suspend=suspend,
        name_labels=labels,
    )


OTHERS: Mapping[GroupKind, Kind] = {kind.group_kind: kind for kind in _others()}
