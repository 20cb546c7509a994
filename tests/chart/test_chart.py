"""The chart on its own: scenarios, names, labels, notes and what is packaged."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import helm_python
import pytest
import yaml

import crds
import trainwright
from helm_chart import (
    CHART,
    IMAGE,
    ROOT,
    SCENARIOS,
    body,
    load,
    objects,
    pod_schema,
    pods,
    render,
    text,
)
from trainwright.datatypes.data import Data
from trainwright.documents.validation import schema

KUBERNETES = range(29, 38)


@pytest.mark.parametrize("path", [None, *SCENARIOS], ids=lambda p: p.name if p else "defaults")
def test_lint_has_nothing_to_say(path: Path | None) -> None:
    report = helm_python.lint(CHART, load(path) if path else {"image": IMAGE}, strict=True)
    assert report["total_charts_linted"] == 1
    assert report["errors"] == []
    assert report["messages"] == []


def test_a_trainjob_s_runtime_is_made_first_where_helm_alone_installs() -> None:
    """Helm makes kinds that it does not know in the order of the alphabet, and hooks before all."""
    values = load(CHART / "ci/trainjob-values.yaml")
    found = {item["kind"]: item for item in objects(values)}
    runtime = found["TrainingRuntime"]["metadata"]["annotations"]
    assert runtime["helm.sh/hook"] == "pre-install"  # an upgrade would wait for the live TrainJob
    assert runtime["helm.sh/hook-delete-policy"] == "before-hook-creation"
    assert "helm.sh/hook" not in found["TrainJob"]["metadata"].get("annotations", {})
    assert "kubectl delete trainingruntime" in render(values)["NOTES.txt"]


def test_no_hook_reaches_engines_unless_it_is_asked_for() -> None:
    values = load(CHART / "ci/trainjob-values.yaml") | {"trainer": {"version": "2.1"}}
    assert "helm.sh/hook" not in "".join(render(values).values())


def test_a_role_of_a_trainjob_is_a_group_of_its_runtime() -> None:
    found = {item["kind"]: item for item in objects(load(CHART / "ci/trainjob-roles-values.yaml"))}
    judge, node = found["TrainingRuntime"]["spec"]["template"]["spec"]["replicatedJobs"]
    assert (judge["name"], judge["template"]["spec"]["parallelism"]) == ("judge", 3)
    assert node["dependsOn"] == [{"name": "judge", "status": "Ready"}]
    of_judge, _ = pods(found["TrainingRuntime"])
    assert "resources" not in of_judge["spec"]["containers"][0]
    assert of_judge["metadata"]["labels"]["trainwright.io/role"] == "judge"
    assert found["TrainJob"]["spec"]["trainer"]["numNodes"] == 2


SINCE = {
    "devices-values.yaml": 31,
    "jobset-in-place-values.yaml": 35,
}  # scenarios that older minors do not know


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.name)
def test_the_real_crd_and_every_kubernetes_accept_a_scenario(
    path: Path, shared: Callable[[str], Path]
) -> None:
    values = load(path)
    minors = [minor for minor in KUBERNETES if minor >= SINCE.get(path.name, 0)]
    assert body(values)["kind"].lower() == values.get("target", "pytorchjob")
    found = objects(values)
    for item in found:
        if crd := crds.at_hand(item, values.get("trainer", {}).get("version", "2.3")):
            assert crds.errors(shared(crd), item) == []
        for minor in minors:
            kind = schema.kind(item["kind"], f"1.{minor}")
            assert kind.explain(item) == (), (item["kind"], minor)
    held = [pod for item in found for pod in pods(item)]
    assert held or values["trainer"]["runtime"]
    for minor in minors:
        for pod in held:
            assert [str(error) for error in pod_schema(minor).iter_errors(pod)] == [], minor


@pytest.mark.parametrize("minor", crds.TRAINJOBS)
@pytest.mark.parametrize("runtime", ["", "torch-distributed"])
def test_every_minor_of_kubeflow_trainer_accepts_its_trainjob(
    minor: str, runtime: str, shared: Callable[[str], Path]
) -> None:
    values = {
        **load(CHART / "ci/every-field-values.yaml"),
        "target": "trainjob",
        "trainer": {"version": minor, "runtime": runtime},
        "replicas": {"master": 1, "worker": 0},
        "nprocPerNode": "8",
        "runPolicy": {"activeDeadlineSeconds": 60, "suspend": False},
    }
    job = body(values)
    overrides = {"2.0": "podSpecOverrides", "2.1": "podTemplateOverrides"}.get(
        minor, "runtimePatches"
    )
    assert (overrides in job["spec"]) is bool(runtime)
    assert crds.errors(shared(crds.TRAINJOBS[minor]), job) == []
    others = {path: crds.errors(shared(path), job) for path in crds.TRAINJOBS.values()}
    if runtime and minor in ("2.0", "2.1"):
        assert [path for path, errors in others.items() if not errors] == [crds.TRAINJOBS[minor]]


def test_a_jobset_and_a_runtime_share_their_pods() -> None:
    values = {
        "image": IMAGE,
        "nodes": 2,
        "restartPolicy": "ExitCode",
        "runPolicy": {"backoffLimit": 1},
    }
    jobset = body({**values, "target": "jobset"})["spec"]
    _, runtime = sorted(objects({**values, "target": "trainjob"}), key=lambda o: len(o["kind"]))
    shared_part = runtime["spec"]["template"]["spec"]
    (replicated,) = shared_part["replicatedJobs"]
    label = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert replicated["template"].pop("metadata") == {"labels": label}
    (container,) = replicated["template"]["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "node"
    container["image"] = "registry.example.com/a:1"
    assert shared_part == jobset


def test_a_lost_pod_costs_a_retry_and_an_eviction_none() -> None:
    values = {"target": "job", "image": IMAGE, "nodes": 3}
    never = body(values)["spec"]
    assert never["backoffLimit"] == 0
    assert "podFailurePolicy" not in never
    retried = body({**values, "restartPolicy": "ExitCode", "runPolicy": {"backoffLimit": 6}})[
        "spec"
    ]
    ignore, fail = retried["podFailurePolicy"]["rules"]
    assert ignore["action"] == "Ignore"
    assert ignore["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert fail["action"] == "FailJob"
    assert fail["onExitCodes"]["values"] == list(range(1, 128))
    assert retried["backoffLimit"] == 6
    assert "backoffLimitPerIndex" not in retried
    assert retried["parallelism"] == retried["completions"] == 3
    assert retried["template"]["spec"]["restartPolicy"] == "Never"


def test_a_jobs_service_gives_its_pods_their_names() -> None:
    found = {o["kind"]: o for o in objects({"target": "job", "image": IMAGE, "nodes": 2})}
    job, service = found["Job"], found["Service"]
    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"]
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_what_a_job_needs_is_there_before_it() -> None:
    found = objects(load(CHART / "ci/job-values.yaml"))
    (job,) = [o for o in found if o["kind"] == "Job"]
    assert "annotations" not in job["metadata"]
    waves = {
        o["kind"]: o["metadata"].get("annotations", {}).get("argocd.argoproj.io/sync-wave")
        for o in found
    }
    # One that waits for its first pod never becomes healthy in a wave before it.
    assert {kind for kind, wave in waves.items() if wave is None} == {
        "Job",
        "PersistentVolumeClaim",
    }
    assert set(waves.values()) == {None, "-1"}
    (claim,) = [o for o in found if o["kind"] == "PersistentVolumeClaim"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_isolated_pods_reach_each_other_and_dns_only() -> None:
    (policy,) = [
        o for o in objects(load(CHART / "ci/job-values.yaml")) if o["kind"] == "NetworkPolicy"
    ]
    (pod,) = pods(body(load(CHART / "ci/job-values.yaml")))
    own = policy["spec"]["podSelector"]["matchLabels"]
    assert own.items() <= pod["metadata"]["labels"].items()
    peers = [{"podSelector": {"matchLabels": own}}]
    assert policy["spec"]["egress"] == [
        {"to": peers},
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
    ]
    assert policy["spec"]["ingress"] == [
        {"from": peers},
        {"ports": [{"port": 9090, "protocol": "TCP"}]},
    ]


def test_pods_that_may_reach_everything_are_reached_by_each_other_only() -> None:
    values = load(CHART / "ci/job-values.yaml") | {
        "networkPolicy": {"enabled": True, "egress": True}
    }
    (policy,) = [o for o in objects(values) if o["kind"] == "NetworkPolicy"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert "egress" not in policy["spec"]
    own = policy["spec"]["podSelector"]["matchLabels"]
    assert policy["spec"]["ingress"][0] == {"from": [{"podSelector": {"matchLabels": own}}]}


def test_what_holds_a_scenario_would_see_an_unknown_field(shared: Callable[[str], Path]) -> None:
    job = body({"image": IMAGE})
    (pod,) = pods(job)
    pod["spec"]["containers"][0]["comand"] = []
    assert crds.errors(shared(crds.CRDS["PyTorchJob"]), job)
    for minor in KUBERNETES:
        assert not pod_schema(minor).is_valid(pod), minor


def test_an_image_is_all_it_takes() -> None:
    job = body({"image": IMAGE}, name="mnist")
    assert list(job) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(job["metadata"]) == ["name", "namespace", "labels"]
    assert job["metadata"]["name"] == "mnist-training-job"
    assert job["metadata"]["namespace"] == "training"
    assert list(job["spec"]["pytorchReplicaSpecs"]) == ["Master"]
    assert job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1
    assert 'nprocPerNode: "1"' in text({"image": IMAGE})
    (pod,) = pods(job)
    assert pod["spec"]["containers"][0]["name"] == "pytorch"
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("target", "more"),
    [
        ("pytorchjob", []),
        ("trainingjob", []),
        ("trainjob", ["trainjob-runtime.yaml"]),
        ("jobset", []),
        ("job", ["job-service.yaml"]),
        ("compose", []),
    ],
)
def test_a_target_renders_no_more_than_it_needs(target: str, more: list[str]) -> None:
    rendered = set(render({"image": IMAGE, "target": target}))
    assert rendered == {f"{target}.yaml", "NOTES.txt", *more}


def test_a_trainingjob_always_has_a_run_policy_and_one_replica_spec() -> None:
    spec = body({"image": IMAGE, "target": "trainingjob"})["spec"]
    assert spec["runPolicy"] == {}
    assert list(spec["replicaSpecs"]) == ["template"]
    assert (spec["minSize"], spec["maxSize"], spec["injectLattice"]) == (1, 1, False)
    assert spec["replicaSpecs"]["template"]["spec"]["containers"][0]["name"] == "trainingjob"


def test_zero_is_a_value() -> None:
    values = {
        "image": IMAGE,
        "replicas": {"master": 0, "worker": 1},
        "elastic": {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 0},
        "runPolicy": {"backoffLimit": 0, "suspend": False},
        "terminationGracePeriodSeconds": 0,
    }
    spec = body(values)["spec"]
    assert spec["elasticPolicy"]["maxRestarts"] == 0
    assert spec["runPolicy"] == {"backoffLimit": 0, "suspend": False}
    assert "Master" not in spec["pytorchReplicaSpecs"]
    assert pods({"spec": spec})[0]["spec"]["terminationGracePeriodSeconds"] == 0


def test_ports_name_their_protocol() -> None:
    port = {"name": "pytorchjob-port", "containerPort": 23456}
    (pod,) = pods(body({"image": IMAGE, "ports": [port]}))
    assert pod["spec"]["containers"][0]["ports"] == [{**port, "protocol": "TCP"}]


# --- names and labels ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("a", "a-training-job"),
        ("training-job", "training-job"),
        ("my.release", "my-release-training-job"),
        ("7b", "job-7b-training-job"),
        ("x" * 53, "x" * 52),
        ("r-" + "y" * 50, "r-" + "y" * 50),
        ("a" * 50 + "--b", "a" * 50),
        ("1" + "a" * 47 + "--b", "job-1" + "a" * 47),
    ],
)
def test_names_start_with_a_letter_and_leave_room(release: str, name: str) -> None:
    found = body({"image": IMAGE}, name=release)["metadata"]["name"]
    assert found == name
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", found)
    assert len(f"{found}-worker-999") <= 63


@pytest.mark.parametrize("target", ["trainjob", "jobset"])
def test_names_leave_room_for_the_pods_of_a_jobset(target: str) -> None:
    found = body({"image": IMAGE, "target": target}, name="x" * 53)["metadata"]["name"]
    assert len(f"{found}-node-0-999-abcde") == 63


def test_overrides_have_helms_usual_meaning() -> None:
    job = body({"image": IMAGE, "nameOverride": "mnist"}, name="team")
    assert job["metadata"]["name"] == "team-mnist"
    assert job["metadata"]["labels"]["app.kubernetes.io/name"] == "mnist"
    assert body({"image": IMAGE, "fullnameOverride": "run-1"})["metadata"]["name"] == "run-1"


def test_objects_that_helm_manages_have_the_recommended_labels() -> None:
    job = body({"image": IMAGE}, name="mnist")
    version = load(CHART / "Chart.yaml")["version"]
    own = {
        "app.kubernetes.io/name": "training-job",
        "app.kubernetes.io/instance": "mnist",
        "app.kubernetes.io/managed-by": "Helm",
    }
    assert job["metadata"]["labels"] == {**own, "helm.sh/chart": f"training-job-{version}"}
    assert pods(job)[0]["metadata"]["labels"] == own


def test_common_labels_win_and_files_in_git_do_not_name_the_chart() -> None:
    common = {"app.kubernetes.io/managed-by": "trainwright", "app.kubernetes.io/name": "mnist"}
    job = body({"image": IMAGE, "commonLabels": common, "labels": {"queue": "a"}})
    (pod,) = pods(job)
    assert common.items() <= job["metadata"]["labels"].items()
    assert common.items() <= pod["metadata"]["labels"].items()
    assert job["metadata"]["labels"]["queue"] == "a"
    assert "queue" not in pod["metadata"]["labels"]
    assert "helm.sh/chart" not in text({"image": IMAGE, "commonLabels": common})


# --- notes, package, metadata --------------------------------------------------------------------


def test_notes_tell_how_to_look_and_how_to_end() -> None:
    notes = render({"image": IMAGE}, name="mnist")["NOTES.txt"]
    assert notes.startswith("mnist-training-job is submitted to namespace training.\n")
    assert "kubectl get pytorchjob mnist-training-job --namespace training" in notes
    assert "kubectl logs --follow mnist-training-job-master-0" in notes
    assert "helm uninstall mnist" in notes


def test_notes_follow_the_first_worker_where_there_is_no_master() -> None:
    elastic = load(CHART / "ci/elastic-values.yaml")
    assert "release-training-job-worker-0" in render(elastic)["NOTES.txt"]
    notes = render({"image": IMAGE, "target": "trainingjob"})["NOTES.txt"]
    assert "kubectl get trainingjob release-training-job" in notes
    assert "master" not in notes


def test_the_package_leaves_out_what_only_tests_need(tmp_path: Path) -> None:
    archive = helm_python.package(CHART, destination=tmp_path)
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert "training-job/templates/_pod.tpl" in names
    assert "training-job/values.schema.json" in names
    assert not [name for name in names if "/ci/" in name]


def test_nothing_in_the_chart_depends_on_a_cluster_or_on_chance() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert not re.search(r"\b(lookup|now|rand\w+|uuidv4|genCA|Capabilities|ttl\w+)\b", templates)
    code = re.sub(r"\{\{-? ?/\*.*?\*/ ?-?\}\}", "", templates, flags=re.DOTALL)
    assert "toYaml" not in code
    assert "define" in code


def test_the_metadata_is_what_chart_repositories_ask_for() -> None:
    chart = load(CHART / "Chart.yaml")
    assert chart["apiVersion"] == "v2"
    assert re.fullmatch(r"\d+\.\d+\.\d+", chart["version"])
    assert chart["appVersion"] == trainwright.__version__
    for key in ("description", "home", "icon", "kubeVersion", "keywords", "sources"):
        assert chart[key], key
    assert all(person["name"] and person["url"] for person in chart["maintainers"])
    main = "https://raw.githubusercontent.com/trainwright/trainwright/main/"
    assert (ROOT / chart["icon"].removeprefix(main)).is_file()
    changes = yaml.safe_load(chart["annotations"]["artifacthub.io/changes"])
    assert {change["kind"] for change in changes} <= {"added", "changed", "fixed", "removed"}
    assert yaml.safe_load(chart["annotations"]["artifacthub.io/links"])
    assert all(isinstance(value, str) for value in chart["annotations"].values())


def test_chart_testing_finds_the_chart_and_checks_its_version() -> None:
    settings: Data = load(ROOT / "ct.yaml")
    found = [
        p.parent for folder in settings["chart-dirs"] for p in (ROOT / folder).glob("*/Chart.yaml")
    ]
    assert found == [CHART]
    assert settings["check-version-increment"] is True
    assert "charts" not in settings  # it would make ct skip that check
