"""What the schemas of specs take, the chart takes too: no message is in Helm's words."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from repository import EVERY_TARGET, Repository
from schema_values import Drawing
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.layout import JobFile, environment_path
from trainwright.files.tree import Edited, Folder
from trainwright.helm import engines
from trainwright.render import job as render
from trainwright.runs.workspace import Workspace

ROOT = Path(__file__).parents[2]
TARGETS = "pytorchjob trainingjob trainjob jobset job compose".split()
ENVIRONMENT = (
    """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.37"}
"""
    + EVERY_TARGET
)
POOL = {
    "resource": "nvidia.com/gpu",
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "nodeSelector": {"pool": "a100"},
}
PLAIN = {"podSecurity": "privileged", "pools": {"a100": POOL}}
HEAD = {"apiVersion": "trainwright.io/v1alpha1", "kind": "JobSpec"}
SMALLEST = {
    **HEAD,
    "name": "llm",
    "image": {"repository": "a/b", "tag": "1"},
    "entrypoint": {"script": "train.py"},
    "resources": {"cpu": "1", "memory": "1Gi"},
}
FILE = JobFile("prod", "llm")


@pytest.fixture(scope="module")
def tree() -> Iterator[Folder]:
    with tempfile.TemporaryDirectory() as folder:
        made = Repository(Path(folder))
        made.write("prod/environment.yaml", ENVIRONMENT)
        made.write("prod/jobs/llm.yaml", "")
        yield Folder(made.root)


ENGINE = engines.engine()


def _findings(
    tree: Folder, spec: dict[str, Any], facts: dict[str, Any] = PLAIN
) -> tuple[Finding, ...]:
    """What is said of a spec in an environment with some facts."""
    extra = "".join(f"{key}: {json.dumps(value)}\n" for key, value in facts.items())
    files = {
        FILE.path: json.dumps(spec, ensure_ascii=False).encode(),
        environment_path("prod"): f"{ENVIRONMENT}{extra}".encode(),
    }
    workspace = Workspace(Edited(tree, files))
    if workspace.sound("prod") is None:
        return workspace.loaded("prod").findings
    return render.alone(workspace.resolve(FILE), render.Context(engine=ENGINE)).findings


# --- specs, drawn from the schema ----------------------------------------------------------------

SCHEMA = json.loads((ROOT / "schemas/job.schema.json").read_text(encoding="utf-8"))
FIELDS = SCHEMA["$defs"]["fields"]["properties"]
VOLUME = SCHEMA["$defs"]["volume"]["properties"]
FACTS = json.loads((ROOT / "schemas/environment.schema.json").read_text(encoding="utf-8"))
# What is the same in all of them, or says nothing of what is rendered.
NOT_DRAWN = set(HEAD) | {"description", "extends", "pool", "waivers"}
_small = st.text(max_size=4)
_anything = st.recursive(
    st.booleans() | st.integers(-5, 2**40) | _small,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_small, inner, max_size=2),
    max_leaves=4,
)
_terms = st.lists(
    st.fixed_dictionaries(
        {"matchExpressions": st.lists(
            st.fixed_dictionaries(
                {"key": _small, "operator": st.sampled_from(["In", "Exists", "Gt"])},
                optional={"values": st.lists(_small, max_size=2)},
            ),
            max_size=2,
        )}
    ),
    max_size=2,
)  # fmt: skip
_affinity = st.dictionaries(
    st.sampled_from(["nodeAffinity", "podAffinity", "podAntiAffinity"]),
    _anything
    | _terms.map(
        lambda t: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": t}}
    ),
    max_size=2,
)
_checkpoint_volume = st.just("v")
_mappings = st.dictionaries(_small, _anything, max_size=2)
# What is written as Kubernetes has it, by the pointer of the field.
_PARTS = {
    f"/{name}": st.lists(_mappings | _anything, max_size=2)
    if part["type"] == "array"
    else _mappings
    for name, part in FIELDS.items()
    if part.get("$ref") == "#/$defs/podPart"
}
DRAWING = Drawing(
    SCHEMA, {**_PARTS, "/affinity": _affinity, "/checkpoint/volume": _checkpoint_volume}
)
MOUNT = set(SCHEMA["$defs"]["mount"]["properties"])
SOURCES = sorted(set(VOLUME) - MOUNT - {"mounts"})


@st.composite
def _volume(draw: st.DrawFn) -> dict[str, Any]:
    source = draw(st.sampled_from(SOURCES))
    volume = {source: draw(DRAWING.of(VOLUME[source]))}
    volume["mountPath"] = draw(DRAWING.of(VOLUME["mountPath"]))
    for key in sorted((MOUNT | {"mounts"}) - {"mountPath"}):
        if draw(st.booleans()):
            volume[key] = draw(DRAWING.of(VOLUME[key]))
    return volume


_NAMES = DRAWING.of(FIELDS["volumes"]["propertyNames"])
_ENTRYPOINTS = st.one_of(
    *(
        st.fixed_dictionaries({key: DRAWING.of(part)})
        for key, part in FIELDS["entrypoint"]["properties"].items()
    )
)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A smallest spec with some fields more, each as the schema has it."""
    names = st.sampled_from(sorted(set(FIELDS) - NOT_DRAWN))
    spec: dict[str, Any] = dict(SMALLEST)
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        if name == "volumes":
            spec[name] = draw(st.dictionaries(_NAMES, _volume(), max_size=3))
        elif name == "entrypoint":
            spec[name] = draw(_ENTRYPOINTS)
        else:
            drawn = draw(DRAWING.of(FIELDS[name], f"/{name}"))
            spec[name] = {**spec.get(name, {}), **drawn} if isinstance(drawn, dict) else drawn
    if "checkpoint" in spec:
        spec["checkpoint"] = {**spec["checkpoint"], "volume": "v"}
        spec["volumes"] = {"v": {"emptyDir": {}, "mountPath": "/v"}}
    if spec["resources"].get("gpu"):
        spec["pool"] = "a100"
    return spec


@st.composite
def facts(draw: st.DrawFn) -> dict[str, Any]:
    """What an environment says that decides what is rendered."""
    fields = FACTS["properties"]
    found = {
        key: draw(DRAWING.of(fields[key])) for key in ("queueing", "podSecurity", "serviceMesh")
    }
    pool = fields["pools"]["additionalProperties"]["properties"]
    drawn = {
        key: draw(DRAWING.of(pool[key]))
        for key in ("tolerations", "nodeSelector", "resource")
        if draw(st.booleans())
    }
    return {**found, "pools": {"a100": {**POOL, **drawn}}}


def _no_words_of_helm(tree: Folder, spec: dict[str, Any], facts: dict[str, Any] = PLAIN) -> None:
    found = _findings(tree, spec, facts)
    assert not [f for f in found if f.rule in ("TW011", "TW012")], found


EXAMPLES: dict[str, dict[str, Any]] = {
    "no memory": {"resources": {"memory": "0Ei"}},
    "hardly any memory": {"resources": {"memory": "1"}},
    "less than a byte": {"resources": {"memory": "0.25"}},
    "a limit of nothing": {"resources": {"memory": "1Gi", "limits": {"memory": "0.0Mi"}}},
    "a long grace": {"gracePeriod": "847h"},
    "the longest grace": {"gracePeriod": "7d"},
    "an affinity of another kind": {"affinity": {"zoneAffinity": {}}},
    "an affinity of another shape": {"affinity": {"podAffinity": [1]}},
    "an affinity with another field": {"affinity": {"podAffinity": {"required": []}}},
    "the volume of the files": {
        "entrypoint": {"inline": "pass"},
        "volumes": {"trainwright-files": {"emptyDir": {}, "mountPath": "/a"}},
    },
    "a ConfigMap with capitals": {
        "volumes": {"v": {"configMap": {"name": "A"}, "mountPath": "/a"}},
        "env": {"A": {"configMap": "B", "key": "c"}},
    },
    "a folder above": {
        "volumes": {"v": {"claim": "c", "mountPath": "/a", "subPathExpr": "$(A)/../b"}}
    },
    "a disk of another shape": {"volumes": {"v": {"iscsi": {"lun": "x"}, "mountPath": "/a"}}},
    "a server with a blank": {
        "volumes": {"v": {"nfs": {"server": "a b", "path": "/a"}, "mountPath": "/a"}}
    },
    "seconds beyond 53 bits": {
        "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**62}]
    },
    "pieces beyond 63 bits": {"resources": {"extended": {"a/b": 10**30}}},
    "a queue that no label can name": {"queue": "q" * 64},
    "a whole number as a fraction": {"procsPerNode": 8.0, "nodes": 2.0},
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extra", EXAMPLES.values(), ids=EXAMPLES)
def test_what_the_chart_would_refuse_is_refused_where_it_stands(
    extra: dict[str, Any], target: str, tree: Folder
) -> None:
    for facts in (PLAIN, {**PLAIN, "queueing": "kueue"}):
        _no_words_of_helm(tree, {**SMALLEST, "target": target, **extra}, facts)


@pytest.mark.parametrize(
    ("extra", "path"),
    [
        (EXAMPLES["no memory"], "/resources/memory"),
        (EXAMPLES["a limit of nothing"], "/resources/limits/memory"),
        (EXAMPLES["a long grace"], "/gracePeriod"),
        (EXAMPLES["an affinity of another kind"], "/affinity/zoneAffinity"),
        (EXAMPLES["an affinity with another field"], "/affinity/podAffinity/required"),
    ],
    ids=str,
)
def test_the_finding_is_about_the_field(extra: dict[str, Any], path: str, tree: Folder) -> None:
    (found,) = _findings(tree, {**SMALLEST, **extra})
    assert (found.rule, found.path) == ("TW010", path)
    text = json.dumps({**SMALLEST, **extra}, ensure_ascii=False)
    assert text[found.place.column - 1 :].startswith(('"0', '"847h', '"zone', '"required'))


_GENEROUS = settings(
    deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
)


@settings(_GENEROUS, max_examples=40)
@given(spec=specs(), around=facts())
@example(spec=SMALLEST, around=PLAIN)
def test_a_spec_that_the_schema_takes_is_taken_by_the_chart(
    spec: dict[str, Any], around: dict[str, Any], tree: Folder
) -> None:
    _no_words_of_helm(tree, spec, around)


@pytest.mark.slow
@settings(_GENEROUS, max_examples=2 * settings.default.max_examples)
@given(spec=specs(), around=facts())
def test_many_specs_that_the_schema_takes_are_taken_by_the_chart(
    spec: dict[str, Any], around: dict[str, Any], tree: Folder
) -> None:
    _no_words_of_helm(tree, spec, around)
