"""What a cluster has: its version, the kinds that it serves, and what its controllers' images are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from live import Live, Missing, Refused

# The kind that is there where a target can run, and the options of its environment.
TARGETS = {
    "pytorchjob": ("kubeflow.org/v1", "PyTorchJob"),
    "trainjob": ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "job": ("batch/v1", "Job"),
    "trainingjob": ("breezeml.ai/v1", "TrainingJob"),
}
KUEUE = ("kueue.x-k8s.io/v1beta2", "ClusterQueue"), ("kueue.x-k8s.io/v1beta1", "ClusterQueue")
ARGO_CD = ("argoproj.io/v1alpha1", "ApplicationSet")
FLUX = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization")

# Parts of image names, by what is installed.
_IMAGES = {
    "training operator": "training-operator",
    "Kubeflow Trainer": "trainer-controller-manager",
    "JobSet": "/jobset",
    "Kueue": "/kueue",
    "Argo CD": "/argocd",
    "kustomize-controller": "kustomize-controller",
    "source-controller": "source-controller",
}
_VERSION = re.compile(r":(?:v?(?P<version>\d+\.\d+\.\d+[\w.-]*|\d+\.\d+)|v1-(?P<commit>[0-9a-f]+))")


@dataclass(frozen=True)
class Survey:
    """What is there; an empty version is not known."""

    versions: dict[str, str]
    missing: dict[str, str]  # why a target cannot run here
    kueue: str  # the version of its API, or nothing
    nodes: int

    def minor(self, part: str, otherwise: str) -> str:
        """Major and minor of what is installed, or what is assumed where that is not known."""
        found = re.match(r"\d+\.\d+", self.versions.get(part, ""))
        return found[0] if found else otherwise


def survey(live: Live, given: dict[str, str]) -> Survey:
    own = {"Kubernetes": str(live.request("get", "/version")["gitVersion"]).removeprefix("v")}
    versions = {**own, **_images(live), **given}
    return Survey(
        versions=versions,
        missing={target: why for target, kind in TARGETS.items() if (why := _why_not(live, kind))},
        kueue=next((kind[0] for kind in KUEUE if not _why_not(live, kind)), ""),
        nodes=len(live.list("v1", "Node")),
    )


def has(live: Live, kind: tuple[str, str]) -> bool:
    return not _why_not(live, kind)


def _why_not(live: Live, kind: tuple[str, str]) -> str:
    try:
        live.place(*kind)
    except Missing as missing:
        return str(missing)
    return ""


def _images(live: Live) -> dict[str, str]:
    """The versions of controllers, as the images of their Deployments and StatefulSets have them."""
    found = {}
    for kind in ("Deployment", "StatefulSet"):
        try:
            owners = live.list("apps/v1", kind)
        except Refused:
            continue
        for owner in owners:
            for container in owner["spec"]["template"]["spec"]["containers"]:
                for name, part in _IMAGES.items():
                    match = _VERSION.search(container["image"])
                    if part in container["image"] and match:
                        found[name] = match["version"] or f"v1-{match['commit']}"
    return found
