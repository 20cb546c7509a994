"""A rendered run has other names: those of its own pods become references, or cannot run."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportOptions, run
from trainwright.importing.convert import Imported
from trainwright.importing.differing import reported
from trainwright.importing.names import Names, referring
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent

JOBSET: dict[str, Any] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "llm"},
    "spec": {
        "replicatedJobs": [
            {
                "name": "trainer",
                "template": {
                    "spec": {
                        "parallelism": 2,
                        "completions": 2,
                        "backoffLimit": 0,
                        "template": {
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [{"name": "a", "image": "registry.example.com/a:1"}],
                            }
                        },
                    }
                },
            }
        ]
    },
}


def imported(tmp_path: Path, container: Any, *others: Any) -> Imported:
    body = copy.deepcopy(JOBSET)
    job = body["spec"]["replicatedJobs"][0]["template"]["spec"]
    job["template"]["spec"]["containers"][0] |= container
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump_all([body, *others], sort_keys=False), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    (one,) = run(HERE, found, ImportOptions(environment="lab", write=False)).imported
    return one


@pytest.mark.parametrize(
    "name",
    [
        "llm-trainer-0-0.llm",
        "llm-trainer-0-0",
        "llm-trainer-0-0.llm.lab.svc.cluster.local",
        "llm-trainer-0-0.llm.lab",
    ],
)
def test_the_pod_with_rank_0_becomes_a_reference(name: str, tmp_path: Path) -> None:
    script = f"torchrun --master-addr={name} --master-port=1234 a.py\n"
    one = imported(tmp_path, {"command": ["bash", "-c", script]})
    assert one.spec["entrypoint"]["argv"][2] == (
        "torchrun --master-addr=${{ rank0.address }} --master-port=1234 a.py\n"
    )
    assert one.severity is not Loss.CANNOT_RUN


def test_variables_and_init_containers_refer_as_well(tmp_path: Path) -> None:
    container = {
        "command": ["bash", "-c", "a"],
        "env": [{"name": "STORE", "value": "http://llm-trainer-0-0.llm:8080/x"}],
    }
    one = imported(tmp_path, container)
    assert one.spec["env"] == {"STORE": "http://${{ rank0.address }}:8080/x"}


def test_files_refer_as_well(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "conf"},
        "data": {"hosts": "llm-trainer-0-0.llm\n"},
    }
    body = {"command": ["a"], "volumeMounts": [{"name": "conf", "mountPath": "/etc/conf"}]}
    job = JOBSET["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(job, "volumes", [{"name": "conf", "configMap": {"name": "conf"}}])
        one = imported(tmp_path, body, config)
    assert one.spec["files"] == {"/etc/conf/hosts": {"content": "${{ rank0.address }}\n"}}


@pytest.mark.parametrize(
    "text",
    [
        "other-llm-trainer-0-0.llm",
        "llm-trainer-0-0-x",
        "llm-trainer-0-01",
        "llm",
        "$${{ not.a.reference }}",
    ],
)
def test_other_words_stay(text: str, tmp_path: Path) -> None:
    one = imported(tmp_path, {"command": ["bash", "-c", f"a {text}"]})
    assert one.spec["entrypoint"]["argv"][2] == f"a {text}".replace("${{", "$${{")


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "first"},
    "spec": {"selector": {"jobset.sigs.k8s.io/jobset-name": "llm"}},
}


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("llm-trainer-0-1.llm", ()),
        ("$JOBSET_NAME-trainer-0-0.$JOBSET_NAME", ()),
        ("${NAME}-trainer-0-0", ()),
        ("--master=first:29500", (SERVICE,)),
    ],
)
def test_what_nothing_replaces_cannot_run(
    text: str, others: tuple[Any, ...], tmp_path: Path
) -> None:
    one = imported(tmp_path, {"command": ["bash", "-c", f"a {text}"]}, *others)
    assert one.severity is Loss.CANNOT_RUN
    (left,) = [item for item in one.left if item.severity is Loss.CANNOT_RUN]
    assert left.field.endswith("/command/2")
    assert "rank0.address" in left.why


# --- Services of one's own -----------------------------------------------------------------------

_OF_JOBSET = {"jobset.sigs.k8s.io/jobset-name": "llm"}
_INDEX = "batch.kubernetes.io/job-completion-index"
_RANK0 = {**_OF_JOBSET, _INDEX: "0"}


def service(selector: Any, name: str = "llm-rdzv", **spec: Any) -> dict[str, Any]:
    spec = {"clusterIP": "None", "ports": [{"port": 29400}], **spec, "selector": selector}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    "selector",
    [
        _RANK0,
        {"job-name": "llm-trainer-0", _INDEX: "0"},
        {**_RANK0, "jobset.sigs.k8s.io/replicatedjob-name": "trainer"},
    ],
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--m llm-rdzv:29400", "--m ${{ rank0.address }}:29400"),
        ("tcp://llm-rdzv:29400", "tcp://${{ rank0.address }}:29400"),
        ("llm-rdzv.lab.svc.cluster.local", "${{ rank0.address }}"),
        ("http://llm-rdzv.lab.svc:80/x", "http://${{ rank0.address }}:80/x"),
        ("/data/llm-rdzv/x", "/data/llm-rdzv/x"),
        ("my-llm-rdzv", "my-llm-rdzv"),
    ],
)
def test_a_service_of_the_pod_with_rank_0_becomes_a_reference(
    selector: Any, text: str, expected: str, tmp_path: Path
) -> None:
    one = imported(tmp_path, {"command": ["bash", "-c", f"a {text}"]}, service(selector))
    assert one.spec["entrypoint"]["argv"][2] == f"a {expected}"
    assert one.severity is not Loss.CANNOT_RUN


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (service(_OF_JOBSET), "llm-rdzv:29400"),
        (service(_OF_JOBSET), "tcp://llm-rdzv:29400"),
        (service({**_OF_JOBSET, _INDEX: "1"}), "llm-rdzv:29400"),
        (service({"job-name": "llm-trainer-0"}), "llm-rdzv:29400"),
        (service({**_RANK0, "jobset.sigs.k8s.io/job-key": "0a1b"}), "llm-rdzv:29400"),
        (service(_RANK0, name="first"), "first:29400"),
        (service(_RANK0), "llm-rdzv.json"),
        (service(_RANK0, clusterIP="", ports=[{"port": 80, "targetPort": 29400}]), "llm-rdzv:80"),
    ],
)
def test_a_service_that_nothing_replaces_cannot_run(other: Any, text: str, tmp_path: Path) -> None:
    one = imported(tmp_path, {"command": ["bash", "-c", f"a {text}"]}, other)
    (left,) = [item for item in one.left if item.severity is Loss.CANNOT_RUN]
    assert left.field.endswith("/command/2")
    assert f"it names {other['metadata']['name']}" in left.why


@pytest.mark.parametrize(
    "other",
    [
        service({**_OF_JOBSET, _INDEX: "7"}),
        service({"app": "mlflow"}),
        service({}),
        service(_RANK0) | {"metadata": {"name": "llm-rdzv", "namespace": "other"}},
    ],
)
def test_a_service_of_other_pods_keeps_its_name(
    other: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JOBSET, "metadata", {"name": "llm", "namespace": "lab"})
    one = imported(tmp_path, {"command": ["bash", "-c", "a llm-rdzv:5000"]}, other)
    assert one.spec["entrypoint"]["argv"][2] == "a llm-rdzv:5000"
    assert one.severity is not Loss.CANNOT_RUN


def test_a_service_of_the_master_is_the_rendezvous(tmp_path: Path) -> None:
    prefix = "training.kubeflow.org/"
    command = ["torchrun", "--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=llm-rdzv:29400"]
    wait = {"name": "wait", "image": "registry.example.com/b:1"}
    wait |= {"command": ["sh", "-c", "until nslookup llm-rdzv; do sleep 1; done"]}
    main = {"name": "pytorch", "image": "registry.example.com/a:1", "command": [*command, "a.py"]}
    replica = {
        "replicas": 1,
        "template": {"spec": {"initContainers": [wait], "containers": [main]}},
    }
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "llm"},
        "spec": {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}},
    }
    selector = {f"{prefix}job-name": "llm", f"{prefix}replica-type": "master"}
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump_all([service(selector), copy.deepcopy(job)]), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    (one,) = run(HERE, found, ImportOptions(environment="lab", write=False)).imported
    message = "until nslookup ${{ rank0.address }}; do sleep 1; done"
    assert one.spec["initContainers"]["wait"]["command"][2] == message
    assert "llm-rdzv" not in str(one.spec)
    assert one.severity is not Loss.CANNOT_RUN


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("llm-trainer-", "${{ run.name }}-node-"),
        ("llm-trainer-0-", "${{ run.name }}-node-0-"),
        ("seq -f llm-trainer-0-%g 0 1", "seq -f ${{ run.name }}-node-0-%g 0 1"),
    ],
)
def test_what_the_names_of_pods_begin_with_refers_to_the_run(
    text: str, written: str, tmp_path: Path
) -> None:
    container = {"command": ["bash", "-c", "a"], "env": [{"name": "PREFIX", "value": text}]}
    one = imported(tmp_path, container)
    assert one.spec["env"] == {"PREFIX": written}
    assert one.severity is not Loss.CANNOT_RUN


@pytest.mark.parametrize(
    ("numbered", "text", "written"),
    [
        ("-", "my-llm-", "${{ run.name }}-"),
        ("-", "my-llm-x", "my-llm-x"),
        ("", "my-llm-", "my-llm-"),
        ("-node-0-", "other-my-llm-", "other-my-llm-"),
    ],
)
def test_a_target_that_numbers_its_pods_otherwise_keeps_the_text(
    numbered: str, text: str, written: str
) -> None:
    names = Names(("my-llm-0.my-llm", "my-llm-1.my-llm"))
    assert referring(text, names, numbered) == written


def test_ranks_that_are_known_now_are_one_line(tmp_path: Path) -> None:
    one = imported(tmp_path, {"command": ["python", "a.py"]})
    paths = [difference.path for difference in one.added if difference.path.endswith("rank")]
    assert len(paths) == 2
    (line,) = [one for one in reported(one.added) if one.difference.path.endswith("rank")]
    assert (line.difference.path, line.difference.after) == ("/pods/*/processes/0/rank", "0 to 1")


# --- what the run and its domain are called -------------------------------------------------------

_OWN = {"clusterIP": "None", "selector": {"jobset.sigs.k8s.io/jobset-name": "llm-70b"}}
_OF_ITS_OWN = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "llm-70b"},
    "spec": _OWN,
}


@pytest.mark.parametrize("others", [(), (_OF_ITS_OWN,)], ids=["its-own", "among-the-files"])
def test_a_variable_that_is_the_name_of_the_domain_refers_to_the_run(
    others: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JOBSET, "metadata", {"name": "llm-70b"})
    container = {
        "command": ["bash", "-c", "a $JOBSET_NAME-$INDEX.$JOBSET_NAME"],
        "env": [
            {"name": "JOBSET_NAME", "value": "llm-70b"},
            {"name": "LOGS", "value": "/logs/llm-70b"},
        ],
    }
    one = imported(tmp_path, container, *others)
    assert one.spec["env"] == {"JOBSET_NAME": "${{ run.name }}", "LOGS": "/logs/llm-70b"}
    assert one.severity is not Loss.CANNOT_RUN


def test_a_container_beside_is_not_given_the_name_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JOBSET, "metadata", {"name": "llm-70b"})
    wait: dict[str, Any] = {"name": "wait", "image": "registry.example.com/b:1"}
    wait |= {"command": ["b"], "env": [{"name": "JOBSET_NAME", "value": "llm-70b"}]}
    job = JOBSET["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    monkeypatch.setitem(job, "initContainers", [wait])
    one = imported(tmp_path, {"command": ["a"]}, _OF_ITS_OWN)
    (left,) = [item for item in one.left if item.severity is Loss.CANNOT_RUN]
    assert "/initContainers/0/env" in left.field


@pytest.mark.parametrize("value", ["llm", "run"])
def test_a_variable_that_may_be_any_word_stays(value: str, tmp_path: Path) -> None:
    one = imported(tmp_path, {"command": ["a"], "env": [{"name": "MODEL", "value": value}]})
    assert one.spec["env"] == {"MODEL": value}
    assert one.severity is not Loss.CANNOT_RUN


def test_the_domain_of_a_single_pod_is_a_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JOBSET, "metadata", {"name": "llm-70b"})
    job = JOBSET["spec"]["replicatedJobs"][0]["template"]["spec"]
    monkeypatch.setitem(job, "parallelism", 1)
    monkeypatch.setitem(job, "completions", 1)
    domain = "llm-70b.lab.svc.cluster.local"
    container = {
        "command": ["bash", "-c", "a ${PODS}0.$DOMAIN --store tcp://llm-70b:29400"],
        "env": [
            {"name": "PODS", "value": "llm-70b-trainer-0-"},
            {"name": "DOMAIN", "value": domain},
        ],
    }
    one = imported(tmp_path, container, _OF_ITS_OWN)
    assert one.spec["env"] == {
        "PODS": "${{ run.name }}-node-0-",
        "DOMAIN": "${{ run.name }}.${{ namespace }}.svc.cluster.local",
    }
    assert one.spec["entrypoint"]["argv"][2].endswith("tcp://${{ rank0.address }}:29400")
    assert one.severity is not Loss.CANNOT_RUN


@pytest.mark.parametrize(
    ("container", "named"),
    [
        ({"env": [{"name": "HEAD", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "head"}}}]}, True),
        ({"envFrom": [{"configMapRef": {"name": "conf"}}]}, True),
        ({"env": [{"name": "SIZE", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "size"}}}]}, False),
        ({"env": [{"name": "MASTER_ADDR", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "head"}}}]}, False),
    ],
    ids=["a-key", "all-keys", "another-key", "where-ranks-meet"],
)  # fmt: skip
def test_a_variable_of_a_configmap_that_names_a_pod_cannot_run(
    container: Any, named: bool, tmp_path: Path
) -> None:
    data = {"head": "llm-trainer-0-0.llm", "size": "2"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": data}
    one = imported(tmp_path, {"command": ["bash", "-c", "a $HEAD"], **container}, config)
    found = [item for item in one.left if item.severity is Loss.CANNOT_RUN]
    assert [item.field for item in found] == ["ConfigMap/conf/data/head"] * named
    assert all("under env" in item.why for item in found)
