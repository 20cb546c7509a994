"""Every rule on its samples, on edge cases, on real manifests, and on anything at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rule_samples import environment, hits, subjects

from trainwright.datatypes.data import Data, plain
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import lookup
from trainwright.findings import credentials
from trainwright.kinds import KINDS as WORKLOADS
from trainwright.kinds.subjects import subject_of
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods import storage
from trainwright.rule_model.rule import Rule, Sample
from trainwright.rule_model.subject import Subject
from trainwright.rules import families, saving, tuning
from trainwright.rules.edits.outcomes import EDIT_RULES
from trainwright.rules.registry import RULES

SCHEMAS = Path(__file__).parents[3] / "schemas"


def _sample(text: str) -> Sample:
    return Sample(tuple(yaml.load_all(text, Loader=yaml.CSafeLoader)))


def _hits(rule: Rule, sample: Sample) -> list[tuple[Subject, str, str]]:
    return [(subject, hit.pointer, hit.message) for subject, hit in hits(rule, sample)]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_rule(rule: Rule) -> None:
    assert not _hits(rule, rule.passing), "the passing sample fails"
    found = _hits(rule, rule.failing)
    assert found, "the failing sample passes"
    for subject, pointer, message in found:
        assert message
        assert not message.endswith(".")
        parent = pointer.rpartition("/")[0]
        assert pointer == "" or lookup(subject.body, parent) is not None, pointer
    for sample in rule.near_misses:
        assert not _hits(rule, sample), f"a near miss fails: {sample.objects}"
    for sample in rule.variants:
        assert _hits(rule, sample), f"a variant passes: {sample.objects}"
    assert re.fullmatch(r"TW[1-8]\d\d", rule.id)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    for text in (rule.summary, rule.effect, rule.remedy, rule.by_hand or rule.remedy):
        assert text.endswith(".")
        assert text[0].isupper() or not text[0].isalpha() or text.startswith("torchrun")
    if rule.kinds:
        for sample in (rule.passing, rule.failing):
            assert {s.kind for s in subjects(sample)} & set(rule.kinds), "a sample it never sees"


def test_each_finding_has_the_effect_of_its_own_form() -> None:
    kinds = {"core", "other", *(kind.kind for kind in WORKLOADS.values()), "Pod"}
    without_sample: dict[str, set[str]] = {}
    of_others: dict[str, set[str]] = {}
    for id_, rule in RULES.items():
        found = [
            (hit.form, rule.effect_of(hit, subject.kind))
            for sample in (rule.failing, *rule.variants)
            for subject, hit in hits(rule, sample)
        ]
        without_sample[id_] = rule.words.effects.keys() - kinds - {form for form, _ in found}
        of_others[id_] = {effect for _, effect in found} - {"", *rule.words.effects.values()}
    assert not {id_: forms for id_, forms in without_sample.items() if forms}
    assert not {id_: effects for id_, effects in of_others.items() if effects}


def test_a_rule_is_chosen_by_part_of_a_text_however_it_is_spelled() -> None:
    def chosen(word: str) -> bool:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": word}}
        subject = subject_of(Manifest(body=body), environment())
        return "TW706" in {rule.id for rule in families.concerning(subject)}

    assert not chosen("fi")
    assert chosen("a fi-provider b")
    assert chosen("a fi-provider b")  # also where it was seen before
    assert chosen("X.Fi.Provider")
    assert not chosen("fi")


@given(st.from_regex(storage._FOLDER))
def test_each_name_of_a_folder_to_save_to_has_a_part_that_is_looked_for(name: str) -> None:
    assert any(part in name for part in storage.SAVING)


def test_each_name_of_a_cache_or_of_threads_has_a_part_that_is_looked_for() -> None:
    for names, parts in (
        (saving._CACHES, (*storage.SAVING, *saving._CACHE)),
        ((*tuning._WORKERS, *map(plain, tuning._THREADS)), tuning._THREADED),
    ):
        assert [name for name in names if not any(part in name for part in parts)] == []


def test_the_registry_is_complete_and_in_order() -> None:
    assert list(RULES) == sorted(RULES)
    assert all(key == rule.id for key, rule in RULES.items())
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
    assert len(RULES) >= 80


def test_every_rule_that_the_reference_asks_for_is_there(shared: Callable[[str], Path]) -> None:
    text = shared("reference/operators.md").read_text().partition("\n## g. ")[2]
    asked = re.findall(r"^([PTJBGKD])(\d\d) ", text, re.MULTILINE)
    assert len(asked) == 84
    families = dict(zip("PTJBGKD", "1234567", strict=True))
    wanted = {f"TW{families[letter]}{number}" for letter, number in asked}
    assert wanted <= {*RULES, *EDIT_RULES}


def test_the_spec_path_of_a_rule_exists() -> None:
    fields = json.loads((SCHEMAS / "job.schema.json").read_text())["$defs"]["fields"]
    found = {rule.id: rule.spec.parts for rule in RULES.values() if rule.spec}
    assert found
    assert not {id_: parts for id_, parts in found.items() if not _has(fields, parts)}


def _has(node: Mapping[str, Any], parts: Sequence[Data]) -> bool:
    for part in parts:
        if part not in node.get("properties", {}):
            return False
        node = node["properties"][part]
    return True


# --- edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "longest"), [(1, 54), (10, 54), (11, 53), (100, 53), (101, 52), (1000, 52)]
)
def test_how_long_a_name_may_be_depends_on_the_largest_worker_index(
    workers: int, longest: int
) -> None:
    def hits(length: int) -> list[str]:
        body = {
            "kind": "PyTorchJob",
            "metadata": {"name": "a" * length},
            "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers}}},
        }
        subject = subject_of(Manifest(body=body), environment())
        return [hit.message for hit in RULES["TW104"].run(subject)]

    assert not hits(longest)
    assert hits(longest + 1)[0].endswith("characters, 1 over 63")
    assert "5 over 63" in hits(longest + 5)[0]


def _pod(container: dict[str, Data], **spec: Data) -> Subject:
    template = {"spec": {"containers": [{"name": "pytorch", **container}], **spec}}
    body = {
        "kind": "PyTorchJob",
        "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
    }
    return subject_of(Manifest(body=body), environment({"podSecurity": "restricted"}))


SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize(
    ("container", "pod", "text"),
    [
        (SAFE, POD, []),
        ({**SAFE, **POD}, {}, []),
        ({**SAFE, "runAsNonRoot": False}, POD, ["runAsNonRoot must be true"]),
        (SAFE, {**POD, "runAsUser": 0}, ["runAsUser must not be 0"]),
        ({"capabilities": {"drop": ["ALL"]}}, POD, ["allowPrivilegeEscalation must be false"]),
        (
            {**SAFE, "capabilities": {"drop": ["NET_RAW"]}},
            POD,
            ["all capabilities must be dropped"],
        ),
        (
            {**SAFE, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
            POD,
            [],
        ),
        (
            {**SAFE, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}},
            POD,
            ["the capability CHOWN is refused"],
        ),
        (
            {**SAFE, "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}},
            POD,
            ["the capability IPC_LOCK is refused by restricted pod security"],
        ),
        ({**SAFE, "privileged": True}, POD, ["privileged is refused by restricted pod security"]),
        (SAFE, {**POD, "seccompProfile": {"type": "Unconfined"}}, ["seccompProfile must be"]),
    ],
)
def test_restricted_pod_security(
    container: dict[str, Data], pod: dict[str, Data], text: list[str]
) -> None:
    subject = _pod({"securityContext": container}, securityContext=pod)
    messages = [hit.message for hit in RULES["TW707"].run(subject)]
    assert len(messages) == len(text), messages
    for message, expected in zip(messages, text, strict=True):
        assert expected in message


def test_injected_init_containers_are_held_to_pod_security_too() -> None:
    subject = _pod(
        {"securityContext": {**SAFE, **POD}}, initContainers=[{"name": "init", "image": "a:1"}]
    )
    assert {hit.pointer.split("/")[-3] for hit in RULES["TW707"].run(subject)} == {"initContainers"}


_UPPER = "ABCDEFGHIJKLMNOP"
SECRETS = {
    "AKIA" + _UPPER: "AWS access key",
    "ghp_" + "a1B2" * 9: "GitHub token",
    "github_pat_" + "a1B2c3" * 5: "GitHub token",
    "glpat-" + "a1B2c" * 4: "GitLab token",
    "hf_" + "a1B2c3" * 6: "Hugging Face token",
    "sk-proj-" + "a1B2c3" * 5: "API key",
    "xoxb-" + "1234567890-abc": "Slack token",
    "AIza" + "a1B2c" * 7: "Google API key",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl": "JSON web token",
    "-----BEGIN RSA PRIVATE KEY-----\nMII": "private key",
    "postgres://user:hunter2@db.example.com/x": "password in a URL",
    "q7Zt9LmX2vRk4WpYc8NsBd6JfHg3Ua5E": "random-looking word",
}
HARMLESS = [
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "/volume/.cache/huggingface",
    "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8-dynamic",
    "550e8400-e29b-41d4-a716-446655440000",
    "https://registry.example.com/v2/ml/train",
    "s3://bucket/Some/Long/Path/With/Names2026/checkpoint_step_00012000",
    "registry.example.com:5000/ml/train@sha256:9f86d081884c7d659a2feaa0c55ad015",
    "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5",
    "facebook/wav2vec2-large-xlsr-53-german-with-lm-and-punctuation",
    "postgres://db.example.com:5432/x",
    "https://user:$(PASSWORD)@proxy.example.com",
    "0123456789abcdef0123456789abcdef0123456789abcdef",
    "expandable_segments:True,max_split_size_mb:512",
]


@pytest.mark.parametrize(("value", "kind"), SECRETS.items())
@pytest.mark.parametrize("where", ["env", "args", "command"])
def test_credentials_are_found_by_their_form_and_never_repeated(
    value: str, kind: str, where: str
) -> None:
    container: dict[str, Data] = {
        "env": {"env": [{"name": "SETTING", "value": value}]},
        "args": {"args": ["--setting", value]},
        "command": {"command": ["train", f"--setting={value}"]},
    }[where]
    found = list(RULES["TW710"].run(_pod(container)))
    assert [kind in hit.message for hit in found] == [True]
    assert value not in repr(found)


@pytest.mark.parametrize("value", HARMLESS)
def test_what_only_looks_like_a_credential_is_left_alone(value: str) -> None:
    assert credentials.kind(value) == ""
    container = {"env": [{"name": "SETTING", "value": value}], "args": [value, f"--x={value}"]}
    assert not list(RULES["TW710"].run(_pod(container)))


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("DB_PASSWORD", "s3cret!", True),
        ("HF_TOKEN", "abc-123", True),
        ("AWS_SECRET_ACCESS_KEY", "short/but+secret1", True),
        ("WANDB_API_KEY", "local-dev-1", True),
        ("HF_TOKEN_PATH", "/secrets/token", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("MAX_TOKENS", "4096", False),
        ("API_KEY_FILE", "/run/key", False),
        ("DB_PASSWORD", "$(OTHER)", False),
        ("DB_PASSWORD", "", False),
        ("AUTHOR", "jane.doe@example.com", False),
    ],
)
def test_credentials_are_found_by_the_name_of_the_variable(
    name: str, value: str, found: bool
) -> None:
    hits = list(RULES["TW710"].run(_pod({"env": [{"name": name, "value": value}]})))
    assert bool(hits) is found


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        (["bash", "-c", "python train.py"], True),
        (["/bin/sh", "-ec", "cd /app && python train.py"], True),
        (["bash", "-c", "cd /app && exec python train.py"], False),
        (["bash", "-c", "set -e\nexec python train.py"], False),
        (["bash", "run.sh"], False),
        (["python", "-c", "print(1)"], False),
    ],
)
def test_shells_must_hand_over_to_the_training(command: list[str], wrong: bool) -> None:
    assert bool(list(RULES["TW712"].run(_pod({"command": command})))) is wrong


@pytest.mark.parametrize(
    ("image", "wrong"),
    [
        ("a", True),
        ("a:latest", True),
        ("registry.example.com:5000/a", True),
        ("registry.example.com:5000/a:1.0", False),
        ("a@sha256:" + "0" * 64, False),
        ("a:latest@sha256:" + "0" * 64, False),
        ("a:main", True),
        ("a:v1", False),
    ],
)
def test_images_are_fixed(image: str, wrong: bool) -> None:
    assert bool(list(RULES["TW709"].run(_pod({"image": image})))) is wrong


# --- what a real server and operator made of PyTorchJobs -----------------------------------------

OBSERVED = {
    "master-only": {"TW115"},
    "one-master-one-worker": {"TW115"},
    "elastic-worker-only": {"TW115"},
    "workers-without-elastic": {"TW109", "TW115"},
    "elastic-with-master": {"TW108", "TW115"},
    "nproc-gpu-word": {"TW115", "TW117", "TW702", "TW720", "TW756"},
    "nproc-two-three-pods": {"TW110", "TW115", "TW117", "TW702", "TW720", "TW756"},
    "user-env-collides": {"TW111", "TW115"},
}


@pytest.mark.parametrize(("case", "expected"), OBSERVED.items())
def test_on_manifests_that_were_applied_to_a_real_server(
    case: str, expected: set[str], shared: Callable[[str], Path]
) -> None:
    text = shared(f"observed/pytorchjob/{case}.yaml").read_text()
    body = next(iter(yaml.load_all(text, Loader=yaml.CSafeLoader)))
    subject = subject_of(Manifest(body=body), environment())
    assert {rule.id for rule, _ in families.run(subject)} == expected


# --- anything at all -----------------------------------------------------------------------------

WITH_PODS = tuple(known for kind in WORKLOADS.values() for known in kind.templates)
KINDS = (
    *WITH_PODS,
    *("Application", "ApplicationSet", "HelmRelease", "Kustomization", "ConfigMap", "LocalQueue"),
    *("ClusterQueue", "ResourceFlavor", "ResourceQuota", "Service", "PersistentVolumeClaim"),
)
_words = st.sampled_from(
    "metadata name labels annotations spec template containers env value resources limits requests "
    "nvidia.com/gpu image command args ports volumes volumeMounts Master Worker "
    "pytorchReplicaSpecs replicaSpecs elasticPolicy runPolicy emptyDir mountPath securityContext "
    "capabilities add drop tolerations key nprocPerNode /dev/shm sizeLimit trainer runtimeRef "
    "podSpecOverrides podTemplateOverrides runtimePatches manager trainingRuntimeSpec "
    "replicatedJobs numProcPerNode initializer dataset storageUri targetJobs mlPolicy torch "
    "podGroupPolicy completionMode Indexed completions parallelism backoffLimit dependsOn "
    "podFailurePolicy rules onExitCodes values failurePolicy targetReplicatedJobs services "
    "environment source sources path ignoreDifferences syncPolicy syncOptions install remediation "
    "retries healthChecks data resourceGroups flavors nominalQuota cohort hard affinity "
    "podAntiAffinity topologySpreadConstraints nodeSelector nodeLabels node torchrun bash -c "
    "kueue.x-k8s.io/queue-name argocd.argoproj.io/sync-wave argocd-cm clusterQueue subdomain "
    "selector network metadata apiVersion kind".split()
)
_anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats(allow_nan=False) | _words | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words | st.text(max_size=3), inner, max_size=6),
    max_leaves=40,
)  # fmt: skip


EVERYTHING = """
podSecurity: restricted
serviceMesh: istio
queues: {a: {}}
kueue: {version: "0.20"}
targets: {trainjob: {version: "2.3"}, job: {}}
pools: {h100: {resource: nvidia.com/gpu, capacity: 8, gpusPerNode: 8}, cpu: {capacity: 2}}
"""


def _run_all(body: dict[str, Data]) -> None:
    """Every kind, with all the others beside it under the same name."""
    prod = environment(yaml.load(EVERYTHING, Loader=yaml.CSafeLoader))
    around = Bundle(Manifest(body={**body, "kind": kind}) for kind in KINDS)
    for manifest in around:
        for _, hit in families.run(subject_of(manifest, prod, None, around)):
            assert isinstance(hit.message, str)
            assert hit.pointer == "" or hit.pointer.startswith("/")


@given(st.dictionaries(_words, _anything, max_size=6))
def test_no_object_makes_a_rule_fail(body: dict[str, Data]) -> None:
    _run_all(body)


_GOOD = [rule.passing.objects[0] for rule in RULES.values()]


def _paths(data: Data, path: tuple[Data, ...] = ()) -> list[tuple[Data, ...]]:
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(p for key, value in items for p in _paths(value, (*path, key)))]


@given(st.data())
def test_no_mutation_of_a_good_object_makes_a_rule_fail(data: st.DataObject) -> None:
    body = json.loads(json.dumps(data.draw(st.sampled_from(_GOOD))))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(_paths(body)[1:] or [()]))
        if not path:
            continue
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = data.draw(_anything)
    _run_all(body)


_WRONG: tuple[Data, ...] = (
    None,
    True,
    7,
    -1,
    "x",
    "",
    [],
    {},
    [[]],
    [{}],
    [None],
    {"x": {}},
    {"x": []},
)


@pytest.mark.slow  # all of what the test above draws from
@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_no_wrong_type_anywhere_in_a_sample_makes_a_rule_fail(rule: Rule) -> None:
    for sample in (rule.passing, rule.failing):
        prod = environment(sample.environment)
        bodies = sample.objects
        for index, body in enumerate(bodies):
            for path in _paths(body)[1:]:
                for wrong in _WRONG:
                    spoilt = json.loads(json.dumps(body))
                    holder = spoilt
                    for key in path[:-1]:
                        holder = holder[key]
                    holder[path[-1]] = wrong
                    documents = [*bodies[:index], spoilt, *bodies[index + 1 :]]
                    around = Bundle(Manifest(body=document) for document in documents)
                    for manifest in around:
                        for _, hit in families.run(subject_of(manifest, prod, None, around)):
                            assert hit.message


_OF_SPECS = (
    "gracePeriod",
    "procsPerNode",
    "launcher:",
    "resources.",
    "image.",
    "job spec",
    "elastic.",
)


def test_remedies_of_manifests_speak_of_manifests() -> None:
    messages = {id_: rule.by_hand or rule.remedy for id_, rule in RULES.items()}
    assert not [
        (id_, word)
        for id_, message in messages.items()
        for word in _OF_SPECS
        if word in message.split("environment.yaml")[0]
    ]


GOLDEN = Path(__file__).parents[2] / "golden"
ROLES = ("Master", "Worker")


def _twins() -> list[Subject]:
    """The pods of each sample, once more under the other role and under both."""
    twins = []
    for rule in RULES.values():
        for subject in (*subjects(rule.passing), *subjects(rule.failing)):
            specs = subject.spec.get("pytorchReplicaSpecs")
            for spec in specs.values() if isinstance(specs, dict) else ():
                both = {**subject.spec, "pytorchReplicaSpecs": dict.fromkeys(ROLES, spec)}
                manifest = Manifest(body={**subject.body, "spec": both})
                twins.append(subject_of(manifest, subject.environment, subject.job))
    return twins


def _plainly(subject: Subject) -> list[tuple[str, str, str]]:
    """What all rules say when none takes one pod for another."""
    looking = [r for r in RULES.values() if not r.kinds or subject.kind in r.kinds]
    return [(rule.id, hit.pointer, hit.message) for rule in looking for hit in rule.run(subject)]


def test_pods_that_are_alike_are_judged_alike() -> None:
    """Rules look at one of them first: what they say must be what they would say of all."""
    twins = _twins()
    assert any(subject.distinct is not subject for subject in twins)
    message = set()
    for subject in twins:
        found = [(rule.id, hit.pointer, hit.message) for rule, hit in families.run(subject)]
        assert found == _plainly(subject)
        message |= {(rule, role) for rule, at, _ in found for role in ROLES if f"/{role}/" in at}
    of_pods = {rule.id for rule in RULES.values() if rule.per_pod}
    both = {rule for rule in of_pods if all((rule, role) in message for role in ROLES)}
    assert len(both) > 15, of_pods - both  # the test sees them fail, and for each role


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_that_does_not_run_would_find_nothing(rule: Rule) -> None:
    """Rules are chosen by the words of an object: what they find must not depend on that."""
    for sample in (rule.passing, rule.failing, *rule.variants, *rule.near_misses):
        for subject in subjects(sample):
            found = [(rule.id, hit.pointer, hit.message) for rule, hit in families.run(subject)]
            assert found == _plainly(subject)


@pytest.mark.parametrize(("field", "runs"), [("hostNetwork", True), ("hostPID", False)])
def test_rules_are_chosen_by_the_words_of_an_object(field: str, runs: bool) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "spec": {field: True, "containers": []}}
    chosen = {
        rule.id for rule in families.concerning(subject_of(Manifest(body=body), environment()))
    }
    assert ("TW732" in chosen) is runs
    assert "TW713" in chosen  # of which no word tells


def test_rendered_pods_are_judged_alike() -> None:
    prod = environment({"podSecurity": "restricted", "serviceMesh": "istio"})
    files = sorted(GOLDEN.rglob("pytorchjob.yaml"))
    assert files
    for file in files:
        for body in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
            subject = subject_of(Manifest(body=body), prod)
            found = [(rule.id, hit.pointer, hit.message) for rule, hit in families.run(subject)]
            assert found == _plainly(subject), file


def test_a_kind_of_another_group_is_not_the_kind_that_a_rule_is_about() -> None:
    """Volcano has a Job, SageMaker a TrainingJob: only the name is the same."""
    taken = []
    samples = [(rule, body) for rule in RULES.values() for body in rule.failing.objects]
    for rule, body in samples:
        known = Manifest(body=body).group_kind
        if known in WITH_PODS and known in (rule.kinds or WITH_PODS):
            foreign = Manifest(body={**body, "apiVersion": "training.example.com/v1"})
            prod = environment(rule.failing.environment)
            subject = subject_of(foreign, prod, None, Bundle([foreign]))
            found = {found.id for found, _ in families.run(subject)}
            if subject.templates or (rule.kinds and rule.id in found):
                taken.append((rule.id, known))
    assert taken == []


@pytest.mark.parametrize(
    ("manifest", "rule"),
    [
        ("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {ttlSecondsAfterFinished: 9}", "TW502"),
        ("apiVersion: sagemaker.services.k8s.aws/v1alpha1\nkind: TrainingJob\nspec: {a: b}", "TW401"),
        ("apiVersion: example.com/v1\nkind: TrainJob\nspec: {image: a}", "TW210"),
        ("apiVersion: batch/v1beta1\nkind: PyTorchJob\nspec: {nprocPerNode: 8}", "TW105"),
    ],
)  # fmt: skip
def test_kinds_of_others_with_a_name_that_is_known(manifest: str, rule: str) -> None:
    subject = subject_of(Manifest(body=yaml.load(manifest, Loader=yaml.CSafeLoader)), environment())
    assert rule not in {found.id for found, _ in families.run(subject)}


STARTING = [
    "torchrun train.py",
    "cd /data; pip install -r requirements.txt; python3 train_distributed.py",
    "apt-get update -qq && apt-get install -y libibverbs1\nexport A=$(hostname)\ntorchrun \\\n  train.py",
    "NCCL_DEBUG=INFO python -u main.py --lr 0.1",
    "python3.11 -m torch.distributed.run train.py",
    "nsys profile -o report torchrun train.py",
    "/opt/bin/scripts/train-script-gpu.sh 2>&1 | tee /data/training.log",
    "if [ $RANK == 0 ]; then accelerate launch train.py; fi",
    "mpirun -n 8 python train.py",
    "bash -x finetune.sh",
    "python - <<'EOF'\nprint(\"it's\")\nEOF\ntorchrun train.py",
]
IDLE = [
    "sleep infinity",
    "date; echo Hello from the Kubernetes cluster",
    "exit 1",
    "echo 'torchrun train.py' && sleep 10",
    "git clone https://github.com/a/distributed-workloads /data/train",
    "pip install accelerate deepspeed torchrun",
    "python -m pip install -r requirements.txt",
    "python -c 'import torch; print(torch.__version__)'",
    "which torchrun; ls /opt/train.sh",
    "while true; do sleep 3600; done",
    "# torchrun train.py\nsleep 1",
    'for i in $(seq 1 1000)\ndo\n  echo "$i"\n  sleep 1\ndone\n',
    "mkdir -p /tmp/.ssh && /usr/sbin/sshd -D -f /tmp/sshd_config",
]


def _shell(script: str, *flags: str) -> set[str]:
    container = {"name": "pytorch", "command": ["/bin/bash", *(flags or ("-c",)), script]}
    replica = {"template": {"spec": {"containers": [container]}}}
    body: dict[str, Data] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "spec": {"pytorchReplicaSpecs": {"Worker": replica}},
    }
    return {rule.id for rule, _ in families.run(subject_of(Manifest(body=body), environment()))}


@pytest.mark.parametrize("script", STARTING)
def test_a_shell_that_starts_a_training_has_to_replace_itself(script: str) -> None:
    assert "TW712" in _shell(script)
    assert "TW712" in _shell(script, "-xc")
    assert "TW712" in _shell(script, "-c", "--")
    assert "TW712" not in _shell(f"true; exec {script}")


@pytest.mark.parametrize("script", IDLE)
def test_a_shell_that_starts_no_training_may_stay(script: str) -> None:
    assert "TW712" not in _shell(script)


_POLICIES = ["mpi: {numProcPerNode: 1}", "flux: {numProcPerNode: 1}", "jax: {}", "xgboost: {}"]


@pytest.mark.parametrize("rule", ["TW203", "TW206", "TW213"])
@pytest.mark.parametrize("policy", [*_POLICIES, "torch: {}"])
def test_what_is_said_of_torch_is_not_said_of_other_frameworks(policy: str, rule: str) -> None:
    trainer = {
        "TW203": "",
        "TW206": "trainer: {env: [{name: PET_NNODES, value: '2'}]}, ",
        "TW213": "trainer: {numNodes: 2, command: [python, a.py]}, ",
    }[rule]
    containers = "spec: {template: {spec: {containers: [{name: node, image: a}]}}}"
    jobs = f"replicatedJobs: [{{name: node, template: {{{containers}}}}}]"
    head = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind:"
    sample = _sample(
        f"{head} TrainJob\nspec: {{{trainer}runtimeRef: {{name: mine}}}}\n---\n"
        f"{head} ClusterTrainingRuntime\nmetadata: {{name: mine}}\n"
        f"spec: {{mlPolicy: {{{policy}}}, template: {{spec: {{{jobs}}}}}}}"
    )
    assert bool(_hits(RULES[rule], sample)) is (policy == "torch: {}")


@pytest.mark.parametrize(
    ("name", "by_torch"),
    [
        ("torch-distributed", True),
        ("ours", True),
        ("mpi-distributed", False),
        ("deepspeed-distributed", False),
        ("mlx-distributed", False),
        ("flux-runtime", False),
    ],
)
def test_a_runtime_that_is_not_there_is_known_by_its_name(name: str, by_torch: bool) -> None:
    command = "trainer: {numNodes: 2, command: [python, a.py]}"
    head = f"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {{runtimeRef: {{name: {name}}}"
    assert bool(_hits(RULES["TW203"], _sample(f"{head}}}"))) is by_torch
    assert bool(_hits(RULES["TW213"], _sample(f"{head}, {command}}}"))) is by_torch


@pytest.mark.parametrize(
    ("api_version", "waits"), [("batch/v1", True), ("batch.volcano.sh/v1alpha1", False)]
)
def test_a_health_check_is_about_a_kind_of_one_group(api_version: str, waits: bool) -> None:
    flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization"
    sample = _sample(
        f"{flux}\nspec: {{healthChecks: [{{apiVersion: {api_version}, kind: Job, name: a}}]}}\n"
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a}"
    )
    assert bool(_hits(RULES["TW510"], sample)) is waits
