"""The shipped fabrics: each renders, on every target, what the documents of its network ask for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from repository import Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.validation import schema
from trainwright.kinds import TARGETS
from trainwright.kinds.subjects import pod_templates
from trainwright.objects.bundle import Bundle
from trainwright.render import build
from trainwright.specs import allowed, fabrics

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
        "rayjob": {"version": "1.7"},
    },
}
# What else a pool of each fabric says: its accelerators, and the labels of its nodes.
GPUS = {"resource": "nvidia.com/gpu", "gpusPerNode": 8}
POOLS: dict[str, dict[str, Any]] = {
    "dranet": GPUS,
    "efa-p4d": {**GPUS, "nodeSelector": {"node.kubernetes.io/instance-type": "p4d.24xlarge"}},
    "efa-p5": {**GPUS, "nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}},
    "efa-p5en": {**GPUS, "nodeSelector": {"node.kubernetes.io/instance-type": "p5en.48xlarge"}},
    "gib": {**GPUS, "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-b200"}},
    "gib-a3-ultra": {
        **GPUS,
        "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"},
    },
    "gib-a4x": {
        "resource": "nvidia.com/gpu",
        "gpusPerNode": 4,
        "nodeSelector": {
            "cloud.google.com/gke-accelerator": "nvidia-gb200",
            "kubernetes.io/arch": "arm64",
        },
    },
    "infiniband-sriov": GPUS,
    "roce-oke": {**GPUS, "nodeSelector": {"node.kubernetes.io/instance-type": "BM.GPU.H100.8"}},
    "roce-oke-vf": {**GPUS, "nodeSelector": {"node.kubernetes.io/instance-type": "BM.GPU.H100.8"}},
    "tcpx": {**GPUS, "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}},
    "tcpxo": {
        **GPUS,
        "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"},
    },
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
    "trainium2": {
        "resource": "aws.amazon.com/neuron",
        "gpusPerNode": 16,
        "nodeSelector": {"node.kubernetes.io/instance-type": "trn2.48xlarge"},
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
        **dict(zip(("launcher",), TARGETS[target].launchers, strict=False)),
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
    """The pod templates of a job on the fabric."""
    resources = {"cpu": "64", "memory": "256Gi", "gpu": POOLS[fabric]["gpusPerNode"]}
    made = _write(root, fabric, _job(target, resources=resources))
    done = made.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    return _templates(root)


def _templates(root: Path) -> list[Pod]:
    """The pod templates of the rendered job, with their metadata."""
    folder = root / "environments/prod/rendered/llm"
    files = sorted(path for path in folder.glob("*.yaml") if path.name != "values.yaml")
    documents = (doc for path in files for doc in yaml.safe_load_all(path.read_text("utf-8")))
    bundle = Bundle(Manifest(body=document) for document in documents)
    templates = (template for manifest in bundle for template in pod_templates(manifest, bundle))
    found = [template.body for template in templates if template.role != "submitter"]  # no GPUs
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
    known = {"summary", "sources", "needs", "allow", "notes", "objects", "job"}
    assert set(profile.document.data) <= known


@pytest.mark.parametrize("name", fabrics.names())
def test_a_profile_says_what_it_uses_that_an_environment_has_to_allow(name: str) -> None:
    profile = fabrics.profile(name)
    assert profile is not None
    used = {use for use, _ in allowed.uses(profile.document.data["job"])}
    assert sorted(used) == list(profile.allow)


def test_what_the_pool_brings_is_allowed_and_what_the_job_asks_for_is_not(tmp_path: Path) -> None:
    _write(tmp_path, "roce-oke", _job("jobset"))
    assert _built(tmp_path).findings == ()
    _write(tmp_path, "roce-oke", _job("jobset", hostIPC=True))
    (finding,) = _built(tmp_path).findings
    assert finding.message == "hostIPC is not allowed in prod"


def test_there_is_a_pool_to_test_each_profile_with() -> None:
    assert sorted(POOLS) == list(fabrics.names())


def test_the_page_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import fabric_page

    assert fabric_page.PAGE.read_text(encoding="utf-8") == fabric_page.page()


# --- what they render ----------------------------------------------------------------------------

# What the documents of each network ask of a pod.
REQUIRED: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "fabrics.yaml").read_text(encoding="utf-8")
)
ON_KUBERNETES = [name for name, target in TARGETS.items() if target.envelope is None]
# What has no place on a target, by what the finding names.
REFUSED = {
    ("dranet", "trainingjob"): "do not have resourceClaims",
    ("gib-a4x", "trainingjob"): "do not have resourceClaims",
    ("tcpx", "trainingjob"): "have no sidecars",
    ("tcpxo", "trainingjob"): "have no sidecars",
    ("trainium", "rayjob"): "Ray starts no ranks",
    ("trainium2", "rayjob"): "Ray starts no ranks",
}


def _cases() -> Iterator[tuple[str, str]]:
    for name in fabrics.names():
        profile = fabrics.profile(name)
        assert profile is not None
        for target in profile.needs.targets or ON_KUBERNETES:
            if (name, target) not in REFUSED:
                yield name, target


def test_it_is_said_what_the_documents_of_each_fabric_ask() -> None:
    assert sorted(REQUIRED) == list(fabrics.names())


def _mounts(pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
    """What a container mounts: by path, the folder of the node, or the kind of the volume."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    found = {}
    for mount in container.get("volumeMounts", ()):
        (kind,) = volumes[mount["name"]].keys() - {"name"}
        source = volumes[mount["name"]][kind]
        found[mount["mountPath"]] = source["path"] if kind == "hostPath" else kind
    return found


def _plain(annotation: str) -> Any:
    """An annotation of which the value is YAML or JSON, as data."""
    return yaml.safe_load(annotation)


def _check_container(pod: Pod, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found["image"].startswith(wanted["image"])
    words = " ".join([*found.get("command", ()), *found.get("args", ())])
    assert wanted["says"] in words
    assert wanted["mounts"] == _mounts(pod, found)
    assert wanted.get("env", {}).items() <= _env(found).items()
    capabilities = found["securityContext"]["capabilities"].get("add", [])
    assert set(wanted.get("capabilities", ())) <= set(capabilities)


def _check(pod: Pod, wanted: Mapping[str, Any]) -> None:
    """That a pod has what the documents of its network ask for, and no capability beyond that."""
    main, spec = _main(pod), pod["spec"]
    for which in ("requests", "limits"):
        assert wanted["resources"].items() <= main["resources"][which].items()
    assert wanted.get("env", {}).items() <= _env(main).items()
    assert wanted.get("mounts", {}).items() <= _mounts(pod, main).items()
    assert wanted.get("spec", {}).items() <= spec.items()
    security = main["securityContext"]
    assert security.get("privileged", False) is wanted.get("privileged", False)
    assert security.get("capabilities", {}).get("add", []) == wanted.get("capabilities", [])
    claims = {claim["name"] for claim in main["resources"].get("claims", ())}
    assert claims == {claim["name"] for claim in wanted.get("spec", {}).get("resourceClaims", ())}
    annotations = pod.get("metadata", {}).get("annotations", {})
    for key, value in wanted.get("annotations", {}).items():
        assert _plain(annotations[key]) == value
    before = {container["name"]: container for container in spec.get("initContainers", ())}
    for name, container in wanted.get("init", {}).items():
        assert "restartPolicy" not in before[name]
        _check_container(pod, before[name], container)
    for name, container in wanted.get("sidecars", {}).items():
        assert before[name]["restartPolicy"] == "Always"
        _check_container(pod, before[name], container)


@pytest.mark.parametrize(("fabric", "target"), list(_cases()))
def test_every_target_renders_what_the_fabric_needs(
    tmp_path: Path, fabric: str, target: str
) -> None:
    for pod in _pods(tmp_path, fabric, target):
        _check(pod, REQUIRED[fabric])
        assert POOLS[fabric].get("nodeSelector", {}).items() <= (
            pod["spec"].get("nodeSelector", {}).items()
        )


@pytest.mark.parametrize(("fabric", "target"), list(REFUSED))
def test_what_a_target_has_no_place_for_is_refused_by_name(
    tmp_path: Path, fabric: str, target: str
) -> None:
    resources = {"cpu": "64", "memory": "256Gi", "gpu": POOLS[fabric]["gpusPerNode"]}
    _write(tmp_path, fabric, _job(target, resources=resources))
    messages = [f.message for f in _built(tmp_path).findings]
    assert any(REFUSED[fabric, target] in message for message in messages)


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
    return _workload_of(next(doc for doc in documents if doc and doc.get("kind") == kind))


def _workload_of(found: Mapping[str, Any]) -> Pod:
    kind = found["kind"]
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


# What a recipe of Google's renders to with the networks of the pods.
RECIPE = {
    "network": {"hostNetwork": False},
    "volumes": {},
    "workload": {"gpus": 16, "image": "registry.example.com/ml/train:1.0"},
    "tasSettings": {},
    "dwsSettings": {},
}


def _recipe(folder: Path, template: Path, **network: Any) -> Pod:
    """The pod of a Helm template of a public recipe."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: recipe\nversion: 1.0.0\n")
    shutil.copy(template, folder / "templates" / "job.yaml")
    values = {**RECIPE, "network": {**RECIPE["network"], **network}}
    with helm_python.Chart.load(folder) as chart:
        (text,) = chart.render(values, name="llama", namespace="default").values()
    return _workload_of(yaml.safe_load(text))


def _networking(pod: Pod) -> dict[str, Any]:
    annotations = pod["metadata"].get("annotations", {})
    prefixes = ("networking.gke.io/", "devices.gke.io/", "k8s.v1.cni.cncf.io/")
    return {k: _plain(v) for k, v in annotations.items() if k.startswith(prefixes)}


@pytest.mark.parametrize(
    ("template", "network", "fabric"),
    [
        ("a3mega/jobset", {"pluginVersion": "plugin:1", "daemonVersion": "daemon:1"}, "tcpxo"),
        ("a3ultra/jobset", {"gibVersion": "gib:1"}, "gib-a3-ultra"),
        ("a3ultra/jobset", {"gibVersion": "gib:1"}, "gib"),
    ],
)
def test_a_job_on_gke_has_what_public_recipes_have(
    tmp_path: Path,
    shared: Callable[[str], Path],
    template: str,
    network: dict[str, str],
    fabric: str,
) -> None:
    folder = "wild/AI-Hypercomputer+gpu-recipes/src/helm-charts"
    path = shared(f"{folder}/{template}/templates/workload-jobset.yaml")
    theirs = _recipe(tmp_path / "recipe", path, **network)
    (ours, *_) = _pods(tmp_path / "ours", fabric, "jobset")
    assert _networking(theirs) == _networking(ours)
    their_init, our_init = (
        {c["name"]: c for c in pod["spec"]["initContainers"]} for pod in (theirs, ours)
    )
    assert their_init.keys() == our_init.keys()
    for name, container in their_init.items():
        assert container.get("restartPolicy") == our_init[name].get("restartPolicy")
        assert _mounts(theirs, container) == _mounts(ours, our_init[name])
        added = container.get("securityContext", {}).get("capabilities", {}).get("add", [])
        assert set(added) <= set(our_init[name]["securityContext"]["capabilities"].get("add", []))
        # The build type is that of the release, unless one is named.
        assert (
            _env(container).items() - {("NCCL_BUILD_TYPE", "222")} <= _env(our_init[name]).items()
        )
    # Without what is the recipe's own: its launcher and its configuration.
    mounts = {k: v for k, v in _mounts(theirs, _main(theirs)).items() if "/workload/" not in k}
    assert mounts.items() <= _mounts(ours, _main(ours)).items()
    wanted = {k: v for k, v in _env(_main(theirs)).items() if k.startswith("NCCL_")}
    wanted.pop("NCCL_INIT_SCRIPT")  # sets the variables that the fabric sets
    wanted.pop("NCCL_PLUGIN_PATH")  # where the script looks for the plugin
    assert wanted.items() <= _env(_main(ours)).items()


def test_a_job_on_oke_has_what_a_public_one_has(
    tmp_path: Path, shared: Callable[[str], Path]
) -> None:
    theirs = _workload(shared("workloads/43-oci-hostnet-rdma-0.yaml"), "PyTorchJob")
    (ours, *_) = _pods(tmp_path, "roce-oke", "pytorchjob")
    for field in ("hostNetwork", "dnsPolicy"):
        assert theirs["spec"][field] == ours["spec"][field]
    assert _mounts(theirs, _main(theirs)).items() <= _mounts(ours, _main(ours)).items()
    security = _main(ours)["securityContext"]
    assert _main(theirs)["securityContext"]["privileged"] is security["privileged"] is True
    wanted = {k: v for k, v in _env(_main(theirs)).items() if k.startswith("NCCL_IB_")}
    # Of its shape: the interfaces, and the queue pairs of A100.
    wanted = {
        k: v for k, v in wanted.items() if k not in ("NCCL_IB_HCA", "NCCL_IB_QPS_PER_CONNECTION")
    }
    assert wanted.items() <= _env(_main(ours)).items()


def test_a_pool_says_which_claim_its_pods_have(
    tmp_path: Path, shared: Callable[[str], Path]
) -> None:
    """As the workers of a public job that DRANET gives their interfaces."""
    text = shared("workloads/44-aks-dranet-0.yaml").read_text(encoding="utf-8")
    text = text.replace("            ...\n", "").replace("                ...\n", "")
    theirs = yaml.safe_load(text)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    defaults = {"resourceClaims": {"rdma": None, "gpu-nic": {"template": "1nic-aligned"}}}
    made = _write(tmp_path, "dranet", _job("jobset"), defaults=defaults)
    assert made.run("render", "--no-cache").exit_code == 0
    (ours, *_) = _templates(tmp_path)
    assert theirs["spec"]["resourceClaims"] == ours["spec"]["resourceClaims"]
    assert _main(theirs)["resources"]["claims"] == _main(ours)["resources"]["claims"]


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
    (behind,) = listed["outdated"]
    assert (behind["path"], behind["after"]) == ('resources.extended["vpc.amazonaws.com/efa"]', 4)
