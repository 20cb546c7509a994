"""Jobs in a Kueue queue: what Kueue writes is left to it, and what it recorded is held against that.

The recordings are of a real API server, with Kueue 0.19.2 and JobSet 0.12.0.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from repository import Repository
from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes

ROOT = Path(__file__).parents[2]
_ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {pytorchjob: {}, trainingjob: {}, trainjob: {version: "2.3"}, jobset: {}, job: {}}
podSecurity: baseline
"""
_GROUP = "kueue.x-k8s.io/podset-group-name"
_KUEUE = f"{_ENVIRONMENT}queueing: kueue\nqueues: {{team: {{}}}}\n"
_QUEUED = (
    "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: a\n"
    "image: {repository: registry.example.com/train, tag: '1.0'}\n"
    "entrypoint: {script: t.py}\nresources: {cpu: '1', memory: 1Gi}\nqueue: team\n"
)


def _queued(repository: Repository, extra: str, environment: str = "") -> Result:
    repository.write("all/environment.yaml", _KUEUE + environment)
    repository.write("all/jobs/a.yaml", _QUEUED + extra)
    return repository.run("render", "all/a")


def _object(repository: Repository, target: str) -> Data:
    return yaml.safe_load(repository.tree()[f"all/rendered/a/{target}.yaml"])


def _groups(repository: Repository) -> list[str | None]:
    replicas = _object(repository, "pytorchjob")["spec"]["pytorchReplicaSpecs"]
    metadata = (replica["template"]["metadata"] for replica in replicas.values())
    return [found.get("annotations", {}).get(_GROUP) for found in metadata]


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_master_and_workers_share_one_topology_domain(kind: str, repository: Repository) -> None:
    """Kueue places each pod set by itself unless both are in one group."""
    extra = f"target: pytorchjob\nnodes: 3\ntopology: {{{kind}: rack}}\n"
    assert _queued(repository, extra).exit_code == 0
    master, worker = _groups(repository)
    assert master == worker
    assert master
    assert not master.isdigit()  # which Kueue refuses


@pytest.mark.parametrize(
    "extra",
    [
        "nodes: 1\ntopology: {required: rack}",
        "elastic: {minNodes: 2, maxNodes: 4}\ntopology: {required: rack}",
        "nodes: 3",
    ],
    ids=["the master alone", "workers alone", "without a topology"],
)
def test_one_pod_set_is_not_grouped(extra: str, repository: Repository) -> None:
    """Kueue refuses a group of any other size than two."""
    assert _queued(repository, f"target: pytorchjob\n{extra}\n").exit_code == 0
    assert set(_groups(repository)) == {None}


@pytest.mark.parametrize("target", ["trainjob", "jobset", "job"])
def test_kinds_of_one_pod_set_are_not_grouped(target: str, repository: Repository) -> None:
    extra = f"target: {target}\nnodes: 3\ntopology: {{required: rack}}\n"
    assert _queued(repository, extra).exit_code == 0
    assert not [path for path, text in repository.tree().items() if _GROUP in text]


def test_a_kueue_that_knows_no_groups_cannot_keep_a_pytorchjob_together(
    repository: Repository,
) -> None:
    extra = "target: pytorchjob\nnodes: 3\ntopology: {required: rack}\n"
    done = _queued(repository, extra, 'kueue: {version: "0.12"}\n')
    assert done.exit_code == 1
    assert "environments/all/jobs/a.yaml:10:" in done.output
    assert "error[TW021]" in done.output
    assert "podset-group-name" in done.output
    assert _queued(repository, extra, 'kueue: {version: "0.13"}\n').exit_code == 0


# --- placement -----------------------------------------------------------------------------------

_POOL = "pools: {h100: {nodeSelector: {agentpool: h100}, tolerations: [{key: sku, operator: Exists}]}}\n"
FIXED = ["job", "jobset"]  # whose API keeps the pod template of what has started
FREE = ["pytorchjob"]


@pytest.mark.parametrize("target", FIXED)
def test_a_pool_in_a_queue_is_left_to_the_flavor_with_a_note(
    target: str, repository: Repository
) -> None:
    extra = f"target: {target}\nnodes: 2\npool: h100\naffinity: {{podAntiAffinity: {{}}}}\n"
    done = _queued(repository, extra, _POOL)
    assert done.exit_code == 0, done.output
    checked = repository.run("check", "all/a")
    assert "note[TW025]: nodeSelector and tolerations of the pool h100" in checked.output
    assert "environments/all/jobs/a.yaml:10:7" in checked.output
    text = repository.tree()[f"all/rendered/a/{target}.yaml"]
    assert "nodeSelector" not in text
    assert "tolerations" not in text
    assert "podAntiAffinity" in text  # Kueue writes no affinity
    repository.write("all/environment.yaml", f'{_KUEUE}{_POOL}severities: {{TW025: "off"}}\n')
    assert "TW025" not in repository.run("check", "all/a").output


def test_the_note_about_the_flavor_goes_by_the_line_that_it_names(repository: Repository) -> None:
    _queued(repository, "target: job\npool: h100\n", _POOL)
    (line,) = re.findall(r"= help: .* write `([^`]+)` in", repository.run("check", "all/a").output)
    repository.write("all/environment.yaml", f"{_KUEUE}{_POOL}{line}\n")
    done = repository.run("check", "all/a")
    assert done.exit_code == 0, done.output
    assert "TW025" not in done.output


_RUNTIME = 'targets: {trainjob: {version: "2.3", runtime: torch}}\n'


@pytest.mark.parametrize("lent", [False, True], ids=["its own runtime", "a runtime of the cluster"])
def test_a_trainjob_leaves_the_tolerations_of_its_pool_to_the_flavor(
    lent: bool, repository: Repository
) -> None:
    """Kueue's replace them from the second attempt on, and its pods would be Pending for ever."""
    extra = "target: trainjob\nnodes: 2\npool: h100\nnodeSelector: {zone: a}\n"
    extra += "gracePeriod: 30s\n" if lent else ""
    environment = (
        _KUEUE.replace(
            'targets: {pytorchjob: {}, trainingjob: {}, trainjob: {version: "2.3"}, jobset: {}, job: {}}\n',
            _RUNTIME,
        )
        if lent
        else _KUEUE
    )
    repository.write("all/environment.yaml", environment + _POOL)
    repository.write("all/jobs/a.yaml", _QUEUED + extra)
    done = repository.run("render", "all/a")
    assert done.exit_code == 0, done.output
    rendered = "".join(repository.tree().values())
    assert "tolerations" not in rendered.replace(_POOL, "")
    assert "agentpool" in rendered  # selectors are added to each other
    assert "zone" in rendered
    checked = repository.run("check", "all/a").output
    assert "note[TW025]: tolerations of the pool h100 are left to the flavor of team" in checked
    assert "TW612" not in checked


@pytest.mark.parametrize("queueing", ["none", "volcano"])
def test_a_trainjob_outside_of_kueue_has_the_tolerations_of_its_pool(
    queueing: str, repository: Repository
) -> None:
    repository.write("all/environment.yaml", f"{_ENVIRONMENT}queueing: {queueing}\n{_POOL}")
    spec = _QUEUED.replace("queue: team\n", "target: trainjob\npool: h100\n")
    repository.write("all/jobs/a.yaml", spec)
    assert repository.run("render", "all/a").exit_code == 0
    assert any(
        "tolerations" in repository.tree()[name] for name in repository.tree() if "rendered" in name
    )


def test_tolerations_of_a_queued_trainjob_itself_are_refused(repository: Repository) -> None:
    done = _queued(repository, "target: trainjob\ntolerations: [{key: a, operator: Exists}]\n")
    assert done.exit_code == 1
    assert "error[TW021]: trainjob: tolerations of its own" in done.output
    assert "every attempt after the first" in done.output
    patch = "target: trainjob\npodPatch: {spec: {tolerations: [{key: a, operator: Exists}]}}\n"
    done = _queued(repository, patch, "allow: [podPatch]\n")
    assert done.exit_code == 1
    assert "the ResourceFlavor of team places the pods" in done.output


@pytest.mark.parametrize("target", FREE)
def test_kinds_whose_template_may_change_keep_their_pool(
    target: str, repository: Repository
) -> None:
    extra = f"target: {target}\npool: h100\nnodeSelector: {{zone: a}}\n"
    assert _queued(repository, extra, _POOL).exit_code == 0
    assert "TW025" not in repository.run("check", "all/a").output
    assert any("agentpool" in text and "zone" in text for text in repository.tree().values())


@pytest.mark.parametrize("target", FIXED)
@pytest.mark.parametrize("queueing", ["none", "volcano", "kueue"])
def test_outside_of_kueues_queues_the_pool_places_the_pods(
    queueing: str, target: str, repository: Repository
) -> None:
    repository.write("all/environment.yaml", f"{_ENVIRONMENT}queueing: {queueing}\n{_POOL}")
    queue = "queue: team\n" if queueing == "volcano" else ""
    spec = _QUEUED.replace("queue: team\n", f"{queue}target: {target}\npool: h100\n")
    repository.write("all/jobs/a.yaml", spec)
    assert repository.run("render", "all/a").exit_code == 0
    assert "agentpool" in repository.tree()[f"all/rendered/a/{target}.yaml"]


@pytest.mark.parametrize("target", FIXED)
@pytest.mark.parametrize(
    "placement", ["nodeSelector: {zone: a}", "tolerations: [{key: a, operator: Exists}]"]
)
def test_placement_by_the_job_itself_is_refused_at_its_line(
    placement: str, target: str, repository: Repository
) -> None:
    done = _queued(repository, f"target: {target}\n{placement}\n")
    assert done.exit_code == 1
    assert f"error[TW021]: {target}: " in done.output
    assert "environments/all/jobs/a.yaml:9:" in done.output
    assert "ResourceFlavor" in done.output
    # wherever it is written
    done = _queued(repository, f"target: {target}\n", f"defaults: {{{placement}}}\n")
    assert done.exit_code == 1
    assert "environments/all/environment.yaml:9:" in done.output


@pytest.mark.parametrize("target", [*FIXED, *FREE, "trainjob"])
@pytest.mark.parametrize("label", ["podset", "cluster-queue-name", "local-queue-name"])
def test_labels_that_kueue_writes_are_its_own(
    label: str, target: str, repository: Repository
) -> None:
    line = f"labels: {{a: b, kueue.x-k8s.io/{label}: mine}}"
    done = _queued(repository, f"target: {target}\n{line}\n")
    assert done.exit_code == 1
    assert f"kueue.x-k8s.io/{label} is written by Kueue" in done.output
    assert f"environments/all/jobs/a.yaml:9:{line.index('mine') + 1}" in done.output


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
@pytest.mark.parametrize("queue", ["kueue.x-k8s.io/queue-name: team", "a: b"])
def test_a_live_run_may_lose_the_placement_that_is_the_flavors(queue: str, kind: str) -> None:
    """Files that older versions rendered had it: a field that Kueue wrote is not the engine's."""
    api = "batch/v1" if kind == "Job" else "jobset.x-k8s.io/v1alpha2"
    head = f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a, labels: {{{queue}}}}}\nspec: "
    pod = "{template: {spec: {restartPolicy: Never%s}}}"
    spec = (
        pod if kind == "Job" else f"{{replicatedJobs: [{{name: node, template: {{spec: {pod}}}}}]}}"
    )
    with_it, without, other = (
        Manifest(body=yaml.safe_load(head + spec % placement))
        for placement in (", nodeSelector: {a: b}", "", ", nodeSelector: {a: c}")
    )
    verdicts = [checked.verdict for checked in outcomes.evaluate(with_it, without)]
    assert verdicts == [Verdict.IN_PLACE if "queue" in queue else Verdict.REJECTED]
    refused = Verdict.UNTIL_ADMITTED if "queue" in queue else Verdict.REJECTED
    assert [checked.verdict for checked in outcomes.evaluate(with_it, other)] == [refused]


# --- what an API server makes of the file once more ----------------------------------------------

# How lists of a pod template are merged by a server-side apply: by these keys, or as a whole.
# https://github.com/kubernetes/kubernetes/blob/v1.36.2/api/openapi-spec/swagger.json
_KEYS = {
    "containers": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_ATOMIC = ("nodeSelector", "fieldRef", "secretKeyRef", "matchLabels")  # as all other lists are


def _applied(live: Data, file: Data, name: str = "") -> Data:
    """What a server-side apply of a file makes of what is there."""
    if isinstance(live, Mapping) and isinstance(file, Mapping) and name not in _ATOMIC:
        keys = [*live, *(key for key in file if key not in live)]
        return {key: _applied(live.get(key), file.get(key, live.get(key)), key) for key in keys}
    if isinstance(live, list) and isinstance(file, list) and name in _KEYS:
        merged = {_key(item, name): item for item in live}
        for item in file:
            merged[_key(item, name)] = _applied(merged.get(_key(item, name)), item)
        return list(merged.values())
    if name == "fieldRef" and isinstance(live, Mapping):  # batch/v1 has a default in there
        return {**{key: live[key] for key in live if key == "apiVersion"}, **file}
    return file


def _key(item: Mapping[str, Data], name: str) -> tuple[Data, ...]:
    return tuple(item.get(key, "TCP") for key in _KEYS[name])


def _template(body: Mapping[str, Data]) -> dict[str, Data]:
    spec = body["spec"]
    for group in spec.get("replicatedJobs", ()):
        spec = group["template"]["spec"]
    found: dict[str, Data] = spec["template"]
    return found


PLAIN = [
    "job/all-features-sweep",
    "job/plain-2-pods-gloo",
    "job/suspended-by-hand",
    "jobset/plain-2-pods-gloo",
    "jobset/suspended-by-hand",
    "jobset/volcano-gang-argv",
    "jobset/volcano-gang-python",
    "jobset/volcano-gang-torchrun",
]
WAITING = [f"{kind}/gpu-in-a-queue-waiting-suspended" for kind in FIXED]
ADMITTED = [
    f"{kind}/{launcher}-gpu-in-a-queue-admitted"
    for kind in FIXED
    for launcher in ("python-3-pods", "torchrun-2-pods")
]


def test_every_recording_of_an_immutable_template_is_a_case(shared: Callable[[str], Path]) -> None:
    folder = shared("observed/controllers")
    there = {f"{kind}/{path.stem}" for kind in FIXED for path in (folder / kind).iterdir()}
    assert there == {*PLAIN, *WAITING, *ADMITTED}


def _recorded(shared: Callable[[str], Path], case: str) -> tuple[Data, Data]:
    """The workload as it was applied, with its pool's placement, and as the server held it."""
    recording = json.loads(shared(f"observed/controllers/{case}.json").read_bytes())
    live = recording["live"]
    (file,) = (body for body in recording["applied"] if body["kind"] == live["kind"])
    return file, live


@pytest.mark.parametrize("case", [*PLAIN, *WAITING])
def test_before_admission_a_file_with_placement_is_applied_again(
    case: str, shared: Callable[[str], Path]
) -> None:
    file, live = _recorded(shared, case)
    assert _applied(_template(live), _template(file)) == _template(live)


@pytest.mark.parametrize("case", ADMITTED)
def test_after_admission_a_file_with_placement_is_another_template(
    case: str, shared: Callable[[str], Path]
) -> None:
    """The API refuses it: spec.template, or spec.replicatedJobs, is immutable."""
    file, live = _recorded(shared, case)
    applied = _applied(_template(live), _template(file))
    assert applied != _template(live)
    for name in ("nodeSelector", "tolerations"):
        applied["spec"][name] = _template(live)["spec"][name]
    assert applied == _template(live)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Data]:
    """The workload that a shipped job of prod is rendered to, for a kind and a job's name."""
    root = tmp_path_factory.mktemp("shipped")
    shutil.copytree(ROOT / "environments", root / "environments")
    environment = root / "environments/prod/environment.yaml"
    text = environment.read_text()
    environment.write_text(text.replace("targets:", "targets:\n  job: {}\n  jobset: {}", 1))
    repository = Repository(root)

    @cache
    def render(kind: str, job: str) -> Data:
        path = root / f"environments/prod/jobs/{job}.yaml"
        original = path.read_text()
        path.write_text(re.sub(r"(?m)^target:.*\n", "", original) + f"target: {kind}\n")
        done = repository.run("render", f"prod/{job}")
        assert done.exit_code == 0, done.output
        path.write_text(original)
        return yaml.safe_load(repository.tree()[f"prod/rendered/{job}/{kind}.yaml"])

    return render


@pytest.mark.parametrize("case", [*WAITING, *ADMITTED])
def test_what_is_rendered_now_is_applied_again_before_and_after_admission(
    case: str, shared: Callable[[str], Path], shipped: Callable[[str, str], Data]
) -> None:
    file, live = _recorded(shared, case)
    metadata = file["metadata"]
    kind, job = case.partition("/")[0], metadata["labels"]["app.kubernetes.io/name"]
    ours = shipped(kind, job)
    ours = json.loads(json.dumps(ours).replace(ours["metadata"]["name"], metadata["name"]))
    template = _as_recorded(_template(ours))
    # What the file with placement has brought there, ours would not have.
    there = _without_its_own(_template(live), _template(file))
    assert _applied(there, template) == there
    assert ("nodeSelector" in there["spec"]) is (case in ADMITTED)  # the flavor's


def _as_recorded(template: Data) -> Data:
    """Without what runs have that began after the recordings; a run keeps what it began with."""
    for container in template["spec"]["containers"]:
        assert container.pop("terminationMessagePolicy") == "FallbackToLogsOnError"
        later = [v for v in container["env"] if v["name"] == "TOKENIZERS_PARALLELISM"]
        for variable in later:
            container["env"].remove(variable)
    return template


def _without_its_own(live: Data, file: Data) -> Data:
    spec = copy.deepcopy(live["spec"])
    for key in file["spec"].get("nodeSelector", {}):
        del spec["nodeSelector"][key]
    for toleration in file["spec"].get("tolerations", ()):
        spec["tolerations"].remove(toleration)
    return {**live, "spec": {key: value for key, value in spec.items() if value not in ({}, [])}}
