"""What YAML readers make of rendered text: PyYAML and Go's reader see what was put in."""

from __future__ import annotations

import re
from pathlib import Path

import helm_python
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from helm_chart import CHART, IMAGE, SCENARIOS, load, pods, render, text
from trainwright.datatypes.data import Data

# Scalars that readers take for something else, fold, or refuse, when they stand there bare.
HOSTILE = [
    *("", " ", "~", "null", "yes", "y", "No", "on", "true", "=", "<<", "-", "?", "&a", "*a", "!a", "@a", "`a"),
    *("1e3", "1E400", "1e-05", "0x10", "0o7", "010", "0b1", "1_000", "12:30", "190:20:30", ".5", ".inf", ".NaN"),
    *("2026-01-01", "2026-01-01T00:00:00Z", "+1", "-0", "1.", "a: b", "a #b", "#a", "[a]", "{a: b}", "%a", "---"),
    *("'", '"', "\\n", "\\", "tab\there", "new\nline", "crlf\r\n", "\n", "trailing ", "{{ .Values }}", "$(A)", "<a>&"),
    *("\x01", "\x1b[0m", "\x7f", "\u00a0", "\u2028", "\u2029", "\ufffd", "é", "日本語", "\U0001f600", "x" * 2000),
]  # fmt: skip
# Those that JSON leaves bare and YAML does not allow; quoted strings carry them too.
CONTROLS = ["\x80", "\x85", "\x9f", "\ufeff", "\ufffe", "\uffff"]
# Valid as labels, and read as numbers, booleans or dates when bare.
LABELS = [
    "",
    "yes",
    "y",
    "No",
    "on",
    "true",
    "null",
    "1e3",
    "0x10",
    "0o7",
    "010",
    "1_000",
    "2026-01-01",
    "1.5",
    "1.e3",
]


def _read(values: Data) -> list[Data]:
    rendered = text(values)
    return [yaml.load(rendered, Loader=yaml.CSafeLoader), helm_python.values_from_yaml(rendered)]


def _numbered(words: list[str], prefix: str) -> dict[str, str]:
    return {f"{prefix}{index}": word for index, word in enumerate(words)}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.name)
def test_both_readers_agree_on_a_scenario(path: Path) -> None:
    python, go = _read(load(path))
    assert python == go


@pytest.mark.parametrize("target", ["pytorchjob", "trainingjob", "jobset", "job"])
def test_hostile_text_is_read_back_the_same(target: str) -> None:
    words = [*HOSTILE, *CONTROLS]
    values = {
        "target": target,
        "image": IMAGE,
        "command": words,
        "args": words,
        "env": _numbered(words, "V"),
        "annotations": _numbered(words, "example.com/a"),
        "podAnnotations": _numbered(words, "a"),
    }
    for job in _read(values):
        (pod,) = pods(job)
        (container,) = pod["spec"]["containers"]
        assert container["command"] == words
        assert container["args"] == words
        assert {e["name"]: e["value"] for e in container["env"]} == values["env"]
        assert [e["name"] for e in container["env"]] == sorted(values["env"])
        assert job["metadata"]["annotations"] == values["annotations"]
        assert pod["metadata"]["annotations"] == values["podAnnotations"]


def test_hostile_text_is_read_back_the_same_from_a_trainjob() -> None:
    words = [*HOSTILE, *CONTROLS]
    values = {"target": "trainjob", "image": IMAGE, "args": words, "env": _numbered(words, "V")}
    for job in _read(values):
        trainer = job["spec"]["trainer"]
        assert trainer["args"] == words
        assert {e["name"]: e["value"] for e in trainer["env"]} == values["env"]


def test_hostile_text_is_read_back_by_docker_the_same() -> None:
    words = [*HOSTILE, *CONTROLS]
    values = {"target": "compose", "image": IMAGE, "args": words, "env": _numbered(words, "V")}
    for project in _read(values):
        service = project["services"]["train"]
        assert [word.replace("$$", "$") for word in service["command"]] == words
        assert {k: v.replace("$$", "$") for k, v in service["environment"].items()} == values["env"]
        assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", "".join(service["command"]))


@pytest.mark.parametrize("script", ["".join(HOSTILE), *CONTROLS, "a: |\n  {{ b }}\n---\n"])
def test_a_script_is_read_back_the_same(script: str) -> None:
    files = {"/opt/main.py": {"key": "main.py", "content": script}}
    rendered = render({"image": IMAGE, "files": files})["configmap.yaml"]
    for read in (
        yaml.load(rendered, Loader=yaml.CSafeLoader),
        helm_python.values_from_yaml(rendered),
    ):
        assert read["data"]["main.py"] == script


def test_hostile_labels_are_read_back_the_same() -> None:
    keyed = {key: key for key in LABELS if key}
    values = {
        "image": IMAGE,
        "labels": _numbered(LABELS, "object"),
        "podLabels": _numbered(LABELS, "pod"),
        "commonLabels": keyed,
        "nodeSelector": {**keyed, **_numbered(LABELS, "node")},
        "tolerations": [{"key": w, "value": w, "operator": "Equal"} for w in keyed],
        "secretEnv": {"y": {"name": "1e3", "key": "0x10"}, "NO": {"name": "null", "key": "1_000"}},
    }
    for job in _read(values):
        (pod,) = pods(job)
        assert values["labels"].items() <= job["metadata"]["labels"].items()
        assert values["podLabels"].items() <= pod["metadata"]["labels"].items()
        assert keyed.items() <= job["metadata"]["labels"].items()
        assert keyed.items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["nodeSelector"] == values["nodeSelector"]
        assert pod["spec"]["tolerations"] == values["tolerations"]
        found = {
            e["name"]: e["valueFrom"]["secretKeyRef"] for e in pod["spec"]["containers"][0]["env"]
        }
        assert found == values["secretEnv"]


def _affinity(words: list[str]) -> dict[str, Data]:
    terms = [
        {"matchExpressions": [{"key": word, "operator": "In", "values": words}]} for word in words
    ]
    weights = [
        {"weight": w, "preference": {"b": [True, None, {}, []]}} for w in (1, 2_000_000, 2**40, 0.5)
    ]
    return {
        "nodeAffinity": {"nodeSelectorTerms": terms, "preferred": weights},
        "podAntiAffinity": {key: key for key in LABELS if key},
    }


def test_hostile_free_form_values_are_read_back_the_same() -> None:
    affinity = _affinity(HOSTILE)
    for job in _read({"image": IMAGE, "affinity": affinity}):
        assert pods(job)[0]["spec"]["affinity"] == affinity


def _mounts(words: list[str]) -> list[Data]:
    sources: list[Data] = [{"hostPath": {"path": f"/{w}"}} for w in words]
    sources += [{"nfs": {"server": "yes", "path": f"/{w}", "readOnly": True}} for w in words]
    sources += [{"configMap": {"name": w, "defaultMode": 0o444}} for w in ("1e3", "null", "0x10")]
    return [
        {"name": f"v{index}", "source": source, "mountPath": f"/{index}/{words[index % len(words)]}".replace(":", "")}
        for index, source in enumerate(sources)
    ]  # fmt: skip


def test_hostile_volumes_are_read_back_the_same() -> None:
    volumes = _mounts(HOSTILE)
    volumes += [
        {"name": w, "source": {"emptyDir": {}}, "mountPath": f"/{w}", "subPath": w}
        for w in ("1e3", "y", "null")
    ]
    for job in _read({"image": IMAGE, "volumes": volumes}):
        spec = pods(job)[0]["spec"]
        assert spec["volumes"] == [{"name": v["name"], **v["source"]} for v in volumes]
        mounts = [{k: v for k, v in volume.items() if k != "source"} for volume in volumes]
        assert spec["containers"][0]["volumeMounts"] == mounts


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
@pytest.mark.parametrize("place", ["affinity", "volumes"])
def test_what_json_cannot_carry_into_yaml_is_refused(control: str, place: str) -> None:
    values: dict[str, Data] = {
        "affinity": {"podAffinity": {"a": [control]}},
        "volumes": [
            {"name": "v", "mountPath": "/v", "source": {"hostPath": {"path": f"/{control}"}}}
        ],
    }
    with pytest.raises(helm_python.HelmError, match=f"/{place}"):
        text({"image": IMAGE, place: values[place]})


_TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)


@given(word=_TEXT)
def test_any_text_is_read_back_the_same_or_refused(word: str) -> None:
    values = {"image": IMAGE, "args": [word], "env": {"A": word}, "annotations": {"a": word}}
    for job in _read(values):
        (container,) = pods(job)[0]["spec"]["containers"]
        assert container["args"] == [word]
        assert container["env"] == [{"name": "A", "value": word}]
        assert job["metadata"]["annotations"] == {"a": word}
    affinity = {"podAffinity": {"a": [word]}}
    try:
        read = _read({"image": IMAGE, "affinity": affinity})
    except helm_python.HelmError:
        assert re.search("[\x80-\x9f\ufeff\ufffe\uffff]", word)
        return
    assert [pods(job)[0]["spec"]["affinity"] for job in read] == [affinity, affinity]


def test_numbers_keep_their_digits() -> None:
    values = load(CHART / "ci/one-node-values.yaml") | {
        "runPolicy": {"activeDeadlineSeconds": 1_209_600, "backoffLimit": 2_000_000},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10_000_000}],
        "podSecurityContext": {"runAsUser": 1_000_700_000, "supplementalGroups": [2_000_000]},
        "resources": {"requests": {"memory": "2000000"}, "limits": {"memory": "2000000", "cpu": "1"}},
    }  # fmt: skip
    rendered = text(values)
    assert not re.search(r"\d[eE]\+?\d", rendered.replace("sha256", ""))
    for job in _read(values):
        spec = pods(job)[0]["spec"]
        assert job["spec"]["runPolicy"] == values["runPolicy"]
        assert spec["tolerations"] == values["tolerations"]
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **values["podSecurityContext"],
        }
        assert spec["containers"][0]["resources"] == values["resources"]
