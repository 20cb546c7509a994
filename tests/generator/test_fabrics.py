"""The shipped fabrics: each renders, on every target, what the documents of its network ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import Repository
from trainwright.kinds import TARGETS
from trainwright.kinds.subjects import pod_templates
from trainwright.model import Manifest
from trainwright.objects.bundle import Bundle
from trainwright.render import build
from trainwright.specs import fabrics, schema

ROOT = Path(__file__).resolve().parents[2]
Pod = Mapping[str, Any]

CLUSTER = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "Environment",
    "namespace": "training",
    "kubernetes": {"version": "1.34"},
    "podSecurity": "privileged",
    "targets": {
        "pytorchjob": {"version": "1.9"},
        "trainingjob": {},
        "trainjob": {"version": "2.3"},
        "jobset": {},
        "job": {},
    },
}
# What else a pool of each fabric says: its accelerators, and the labels of its nodes.
GPUS = {"resource": "nvidia.com/gpu", "gpusPerNode": 8}
POOLS: dict[str, dict[str, Any]] = {
    "efa-p4d": {**GPUS, "nodeSelector": {"node.kubernetes.io/instance-type": "p4d.24xlarge"}},
    "efa-p5": {**GPUS, "nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}},
    "infiniband-sriov": GPUS,
    "tpu": {
        "resource": "google.com/tpu",
        "gpusPerNode": 4,
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "2x4",
        },
    },
    "trainium": {
        "resource": "aws.amazon.com/neuron",
        "gpusPerNode": 16,
        "nodeSelector": {"node.kubernetes.io/instance-type": "trn1.32xlarge"},
    },
}


def _job(target: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainwright.io/v1alpha1",
        "kind": "JobSpec",
        "name": "llm",
        "target": target,
        "image": {"repository": "registry.example.com/ml/train", "tag": "1.0"},
        "entrypoint": {"script": "train.py"},
        "pool": "p",
        "nodes": 2,
        "maxDuration": "1h",
        "resources": {"cpu": "64", "memory": "512Gi", "gpu": 8},
        **more,
    }


def _write(root: Path, fabric: str, job: Mapping[str, Any], **pool: Any) -> Repository:
    made = Repository(root)
    place = {**CLUSTER, "pools": {"p": {**POOLS[fabric], "fabric": fabric, **pool}}}
    made.write("prod/environment.yaml", yaml.safe_dump(place, sort_keys=False))
    made.write("prod/jobs/llm.yaml", yaml.safe_dump(dict(job), sort_keys=False))
    return made


def _built(root: Path) -> build.Build:
    return build.build(root, (), build.BuildOptions(today="2026-06-01", use_cache=False))


def _pods(root: Path, fabric: str, target: str) -> list[Pod]:
    """The pod templates of a job on the fabric, with their metadata."""
    resources = {"cpu": "64", "memory": "256Gi", "gpu": POOLS[fabric]["gpusPerNode"]}
    made = _write(root, fabric, _job(target, resources=resources))
    done = made.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    folder = root / "environments/prod/rendered/llm"
    files = sorted(path for path in folder.glob("*.yaml") if path.name != "values.yaml")
    documents = (doc for path in files for doc in yaml.safe_load_all(path.read_text("utf-8")))
    bundle = Bundle(Manifest(body=document) for document in documents)
    found = [template.body for manifest in bundle for template in pod_templates(manifest, bundle)]
    assert found
    return found


def _main(pod: Pod) -> Mapping[str, Any]:
    found: Mapping[str, Any] = pod["spec"]["containers"][0]
    return found


def _env(container: Mapping[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container.get("env", ())}


# --- the profiles as data ------------------------------------------------------------------------


def test_the_schema_names_the_profiles() -> None:
    environment = json.loads((schema.FOLDER / "environment.schema.json").read_text("utf-8"))
    pool = environment["properties"]["pools"]["additionalProperties"]["properties"]
    assert pool["fabric"]["enum"] == list(fabrics.names())


@pytest.mark.parametrize("name", fabrics.names())
def test_a_profile_is_what_a_pool_may_write(name: str) -> None:
    profile = fabrics.profile(name)
    assert profile is not None
    assert profile.sources
    assert all(source.startswith("https://") for source in profile.sources)
    pool = {"defaults": profile.document.data["job"]}
    assert schema.environment_file().explain({**CLUSTER, "pools": {"p": pool}}) == ()
    known = {"summary", "sources", "needs", "allow", "notes", "job"}
    assert set(profile.document.data) <= known


def test_there_is_a_pool_to_test_each_profile_with() -> None:
    assert sorted(POOLS) == list(fabrics.names())


def test_the_page_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import fabric_page

    assert fabric_page.PAGE.read_text(encoding="utf-8") == fabric_page.page()


# --- what they render ----------------------------------------------------------------------------

# https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
EFA_ENV = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1", "FI_EFA_FORK_SAFE": "1"}
RESOURCES: dict[str, dict[str, str]] = {
    "efa-p4d": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "4"},
    "efa-p5": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"},
    # https://azure.github.io/aks-rdma-infiniband/configurations/network-operator
    "infiniband-sriov": {"nvidia.com/gpu": "8", "rdma/ib": "8"},
    # https://cloud.google.com/kubernetes-engine/docs/how-to/tpus
    "tpu": {"google.com/tpu": "4"},
    # https://awsdocs-neuron.readthedocs-hosted.com/en/v2.29.1/frameworks/torch/torch-neuronx/setup-trn1-multi-node-execution.html
    "trainium": {"aws.amazon.com/neuron": "16", "vpc.amazonaws.com/efa": "8"},
}
ENV: dict[str, dict[str, str]] = {
    "efa-p4d": EFA_ENV,
    "efa-p5": EFA_ENV,
    "infiniband-sriov": {"NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "SYS"},
    "tpu": {"PJRT_DEVICE": "TPU"},
    "trainium": {**EFA_ENV, "CCOM_SOCKET_IFNAME": "eth0"},
}
CAPABILITIES: dict[str, list[str]] = {"infiniband-sriov": ["IPC_LOCK"]}
ON_KUBERNETES = [name for name, target in TARGETS.items() if target.envelope is None]


def _cases() -> Iterator[tuple[str, str]]:
    for name in fabrics.names():
        profile = fabrics.profile(name)
        assert profile is not None
        for target in profile.needs.targets or ON_KUBERNETES:
            yield name, target


@pytest.mark.parametrize(("fabric", "target"), list(_cases()))
def test_every_target_renders_what_the_fabric_needs(
    tmp_path: Path, fabric: str, target: str
) -> None:
    for pod in _pods(tmp_path, fabric, target):
        main = _main(pod)
        for which in ("requests", "limits"):
            assert RESOURCES[fabric].items() <= main["resources"][which].items()
        assert ENV[fabric].items() <= _env(main).items()
        capabilities = main["securityContext"]["capabilities"]
        assert capabilities.get("add", []) == CAPABILITIES.get(fabric, [])
        assert POOLS[fabric].get("nodeSelector", {}).items() <= (
            pod["spec"].get("nodeSelector", {}).items()
        )


@pytest.mark.parametrize("fabric", fabrics.names())
def test_a_job_on_a_fabric_has_no_findings(tmp_path: Path, fabric: str) -> None:
    resources = {"cpu": "64", "memory": "256Gi", "gpu": POOLS[fabric]["gpusPerNode"]}
    _write(tmp_path, fabric, _job("jobset", resources=resources))
    assert [(f.rule, f.message) for f in _built(tmp_path).findings] == []


def test_a_fabric_needs_kubernetes(tmp_path: Path) -> None:
    """Docker has nothing like it, and says so for each part."""
    made = _write(tmp_path, "efa-p5", _job("compose", nodes=1))
    environment = {**CLUSTER, "targets": {"compose": {}}}
    pools = {"p": {**POOLS["efa-p5"], "fabric": "efa-p5"}}
    made.write("prod/environment.yaml", yaml.safe_dump({**environment, "pools": pools}))
    checked = made.run("check", "--no-cache")
    assert checked.exit_code == 1
    assert "Docker has nothing like resources.extended" in checked.output


# --- as real jobs have it ------------------------------------------------------------------------


def _workload(path: Path, kind: str) -> Pod:
    documents = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    found = next(doc for doc in documents if doc and doc.get("kind") == kind)
    if kind == "PyTorchJob":
        pod: Pod = found["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    elif kind == "HyperPodPyTorchJob":
        pod = found["spec"]["replicaSpecs"][0]["template"]
    else:
        pod = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return pod


@pytest.mark.parametrize(
    ("file", "kind", "fabric"),
    [
        ("workloads/02-aws-fsdp-llama2-70b.yaml", "PyTorchJob", "efa-p5"),
        ("workloads/42-aws-llama3-hpto.yaml", "HyperPodPyTorchJob", "efa-p5"),
        ("workloads/41-aws-hyperpod-recipe.yaml", "PyTorchJob", "efa-p5"),
    ],
)
def test_a_job_on_efa_has_what_public_ones_have(
    tmp_path: Path, shared: Callable[[str], Path], file: str, kind: str, fabric: str
) -> None:
    real = _main(_workload(shared(file), kind))
    (pod, *_) = _pods(tmp_path, fabric, "pytorchjob")
    ours = _main(pod)
    counted = {k: str(v) for k, v in real["resources"]["limits"].items()}
    assert counted == {k: v for k, v in ours["resources"]["limits"].items() if k in counted}
    theirs = {k: v for k, v in _env(real).items() if k.startswith("FI_")}
    # The default of libfabric: https://github.com/aws-samples/awsome-distributed-training/blob/7217859f/1.architectures/efa-cheatsheet.md
    theirs.pop("FI_EFA_ENABLE_SHM_TRANSFER", None)
    assert theirs.items() <= _env(ours).items()
    assert "/dev/shm" in {mount["mountPath"] for mount in ours["volumeMounts"]}


def test_a_job_on_trainium_has_what_public_ones_have(
    tmp_path: Path, shared: Callable[[str], Path]
) -> None:
    path = "workloads/08-aws-nxd-llama3-trn.yaml"
    documents = yaml.safe_load_all(shared(path).read_text(encoding="utf-8"))
    found = next(doc for doc in documents if doc["kind"] == "PyTorchJob")
    worker = found["spec"]["pytorchReplicaSpecs"]["Worker"]
    theirs = worker["template"]["spec"]["containers"][0]
    (pod, *_) = _pods(tmp_path, "trainium", "pytorchjob")
    ours = _main(pod)
    assert set(theirs["resources"]["limits"]) <= set(ours["resources"]["limits"])
    wanted = {k: v for k, v in _env(theirs).items() if k.startswith(("FI_", "NEURON_RT_NUM"))}
    for default in ("FI_LOG_LEVEL", "FI_EFA_ENABLE_SHM_TRANSFER"):
        wanted.pop(default)
    assert wanted.items() <= _env(ours).items()
    assert "--nproc_per_node=32" in theirs["command"]
    assert "--nproc-per-node=32" in ours["command"]


# --- slices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "nodes", "gpu", "message"),
    [
        ("2x4", 2, 4, ""),
        ("4x4x4", 16, 4, ""),
        ("4x4", 2, 4, "4x4: 16 accelerators, and the job has 8 (nodes: 2, resources.gpu: 4)"),
        ("2x2", 1, 1, "2x2: 4 accelerators, and the job has 1 (nodes: 1, resources.gpu: 1)"),
    ],
)
def test_a_job_has_a_whole_slice(
    tmp_path: Path, topology: str, nodes: int, gpu: int, message: str
) -> None:
    selector = {**POOLS["tpu"]["nodeSelector"], "cloud.google.com/gke-tpu-topology": topology}
    resources = {"cpu": "1", "memory": "1Gi", "gpu": gpu}
    job = _job("jobset", nodes=nodes, resources=resources)
    _write(tmp_path, "tpu", job, nodeSelector=selector)
    found = [f.message for f in _built(tmp_path).findings if f.rule == "TW022"]
    assert [message in one for one in found] == ([True] if message else [])


def test_a_slice_needs_pods_with_an_index(tmp_path: Path) -> None:
    resources = {"cpu": "1", "memory": "1Gi", "gpu": 4}
    _write(tmp_path, "tpu", _job("pytorchjob", resources=resources))
    found = [f.message for f in _built(tmp_path).findings]
    assert "the fabric tpu needs the target job or jobset or trainjob" in found


# --- pools that name one -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ({"resource": "amd.com/gpu"}, "needs the resource nvidia.com/gpu"),
        ({"gpusPerNode": 4}, "needs gpusPerNode 8"),
        ({"node": {"nics": 4}}, "needs 32 vpc.amazonaws.com/efa per node"),
    ],
)
def test_a_pool_that_says_otherwise_is_refused_at_its_line(
    tmp_path: Path, pool: dict[str, Any], message: str
) -> None:
    job = _job("jobset", resources={"cpu": "1", "memory": "1Gi", "gpu": 4})
    _write(tmp_path, "efa-p5", job, **pool)
    (finding,) = [f for f in _built(tmp_path).findings if message in f.message]
    text = (tmp_path / finding.place.file).read_text("utf-8").splitlines()
    assert text[finding.place.line - 1].strip() == "fabric: efa-p5"


def test_explain_names_the_fabric_and_the_line_that_names_it(tmp_path: Path) -> None:
    made = _write(tmp_path, "efa-p5", _job("jobset"), defaults={"env": {"FI_PROVIDER": "tcp"}})
    shown = made.run("explain", "prod/llm", "env.FI_PROVIDER", "-o", "json")
    (item,) = json.loads(shown.output)["items"]
    assert item["decided"]["layer"] == "pool p"
    (below,) = item["overridden"]
    assert below["layer"] == "fabric efa-p5 of pool p"
    file, line, _ = below["place"].split(":")
    assert (tmp_path / file).read_text("utf-8").splitlines()[int(line) - 1].strip() == (
        "fabric: efa-p5"
    )


def test_more_interfaces_than_a_node_has_are_found(tmp_path: Path) -> None:
    resources = {"cpu": "1", "memory": "1Gi", "gpu": 8, "extended": {"vpc.amazonaws.com/efa": 64}}
    _write(tmp_path, "efa-p5", _job("jobset", resources=resources), node={"nics": 32})
    (finding,) = [f for f in _built(tmp_path).findings if f.rule == "TW728"]
    assert "64 vpc.amazonaws.com/efa" in finding.message


def test_what_the_fabric_says_anyway_is_redundant_in_a_job(tmp_path: Path) -> None:
    _write(tmp_path, "efa-p5", _job("jobset", env={"FI_PROVIDER": "efa"}))
    assert [f.path for f in _built(tmp_path).findings if f.rule == "TW060"] == ["/env/FI_PROVIDER"]


def test_another_fabric_holds_the_runs_of_the_pool(tmp_path: Path) -> None:
    made = _write(tmp_path, "efa-p5", _job("jobset"))
    assert made.run("render").exit_code == 0
    before = made.tree()
    path = tmp_path / "environments/prod/environment.yaml"
    path.write_text(path.read_text("utf-8").replace("efa-p5", "efa-p4d"), encoding="utf-8")
    assert made.run("render").exit_code == 0
    assert made.tree() == before
    (listed,) = json.loads(made.run("list", "-o", "json").output)["items"]
    (behind,) = listed["behind"]
    assert (behind["path"], behind["after"]) == ('resources.extended["vpc.amazonaws.com/efa"]', 4)
