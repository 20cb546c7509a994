"""A fact of an environment is in a run's name exactly where it changes a rendered byte."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.documents import yamlio
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Folder
from trainwright.helm import engines, values
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import unsupported
from trainwright.runs import identity
from trainwright.runs.record import VALUES_FILE
from trainwright.specs import resolve
from trainwright.specs.load import Reader
from trainwright.specs.merge import Layer, Layered, stack

# Where the object is and who applies it is recorded of every run, and in no name: the object
# there is would only move, or be annotated otherwise.
LOCATION = ("namespace", "gitops")

JOB: dict[str, Any] = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "JobSpec",
    "name": "llm",
    "image": {"repository": "registry.example.com/ml/train", "tag": "1.0"},
    "entrypoint": {"script": "train.py"},
    "resources": {"cpu": "8", "memory": "64Gi"},
    "security": {"runAsUser": 1000},
}
GPU = {"resources": {"cpu": "8", "memory": "64Gi", "gpu": 2}, "pool": "p"}
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "of several nodes": {"nodes": 2},
    "by root": {"security": {}},
    "on CPU nodes": {"pool": "p"},
    "on GPU nodes": GPU,
    "in a queue": {**GPU, "queue": "team", "nodes": 2},
    "in a queue, near each other": {"queue": "team", "nodes": 2, "topology": {"preferred": "rack"}},
    "near each other": {"nodes": 2, "topology": {"preferred": "rack"}},
    "in a gang": {"gang": True, "nodes": 2},
    "torchrun": {"launcher": "torchrun", "nodes": 2},
    "torchrun on one node": {"launcher": "torchrun"},
    "torchrun of one's own": {"entrypoint": {"argv": ["torchrun", "a.py"]}},
    "python": {"launcher": "python"},
    "elastic": {"elastic": {"minNodes": 1, "maxNodes": 2}},
    "elastic, in a gang": {"elastic": {"minNodes": 1, "maxNodes": 2}, "gang": True},
    "torchrun, without an agent": {"launcher": "torchrun", "lattice": {"inject": False}},
    "code by commit": {"code": {"git": {"url": "https://git.example.com/a", "commit": "5" * 40}}},
    "code in an image": {"code": {"image": f"r.example.com/code@sha256:{'5' * 64}"}},
    "that retries": {"retries": 2},
    "that retries, with an account": {"retries": 2, "serviceAccount": "own"},
    "with everything": {
        **GPU,
        "nodes": 2,
        "metrics": {"port": 9090},
        "maxDuration": "2h",
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "own", "operator": "Exists"}],
    },
}
POOLS = [
    {},
    {"resource": "nvidia.com/gpu"},
    {"resource": "amd.com/gpu"},
    {"resource": "nvidia.com/gpu", "nodeSelector": {"a": "b"}},
    {"resource": "nvidia.com/gpu", "tolerations": [{"key": "a", "operator": "Exists"}]},
    {"resource": "nvidia.com/gpu", "capacity": 8, "gpusPerNode": 8, "pricePerGpuHour": 2, "spot": True},
]  # fmt: skip
TARGET_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "pytorchjob": [{}, {"version": "1.9"}, {"restrictedInitContainer": True}],
    "trainingjob": [
        {},
        {"version": "0.3"},
        {"rendezvous": {"backend": "etcd-v2", "endpoint": "a:2379"}},
        {"rendezvous": {"backend": "c10d", "endpoint": "a:2379"}},
        {"rendezvous": {"backend": "c10d", "endpoint": "b:2379"}},
    ],
    "trainjob": [{"version": f"2.{minor}"} for minor in (3, 2, 1, 0)]
    + [{"version": "2.2.1"}, {"version": "2.3", "runtime": "own"}, {"version": "2.2", "runtime": "own"}],
    "jobset": [
        {},
        {"version": "0.12"},
        {"inPlaceRestart": {"image": f"r.example.com/agent@sha256:{'7' * 64}"}},
        {"inPlaceRestart": {"image": f"r.example.com/agent@sha256:{'8' * 64}"}},
        {"inPlaceRestart": {"image": f"r.example.com/agent@sha256:{'8' * 64}", "serviceAccount": "a"}},
    ],
    "job": [{}],
    "rayjob": [{}, {"version": "1.7"}],
    "compose": [{}],
}  # fmt: skip
ENVIRONMENT: dict[str, list[Any]] = {
    "namespace": ["training", "other"],
    "description": ["", "other"],
    "kubernetes": [{"version": "1.35"}, {"version": "1.37"}],
    "queueing": ["none", "kueue", "volcano", "coscheduling"],
    "kueue": [{}, {"version": "0.12"}, {"version": "0.19"}],
    "queues": [{"team": {}}, {"team": {"quota": 4}}],
    "podSecurity": ["restricted", "baseline", "privileged"],
    "serviceMesh": ["none", "istio", "linkerd"],
    "sharedChanges": ["hold", "start"],
    "images": [{}, {"requireDigest": True}, {"gitSync": f"r.example.com/git-sync@sha256:{'6' * 64}"}],
    "budget": [{}, {"gpuHours": 5}],
    "currency": ["USD", "EUR"],
    "secrets": [{}, {"hf": {}}],
    "severities": [{}, {"TW111": "off"}],
    "gitops": [{"engine": e, "prune": p} for e in ("argocd", "flux", "none") for p in ("confirm", "immediate")],
    "pools": [{"p": pool} for pool in POOLS],
}  # fmt: skip


def test_every_target_has_options() -> None:
    assert set(TARGET_OPTIONS) == set(TARGETS)


def _document(path: str, data: dict[str, Any]) -> Document:
    document = yamlio.parse(path, yaml.dump(data, Dumper=yaml.CSafeDumper).encode())
    assert isinstance(document, Document)
    return document


@cache
def _environment(written: str) -> Environment:
    document = yamlio.parse("environment.yaml", written.encode())
    assert isinstance(document, Document)
    return resolve.environment("prod", document)


def _spec(job: str, target: str) -> Layered:
    own = dict(zip(("launcher",), TARGETS[target].launchers, strict=False))
    document = _document("job.yaml", {**JOB, **own, **JOBS[job], "target": target})
    return stack((Reader(Folder(Path())).built_in, Layer("job", document)))


def _choices(target: str) -> dict[str, list[Any]]:
    return {**ENVIRONMENT, "targets": [{target: options} for options in TARGET_OPTIONS[target]]}


@cache
def _changes(target: str) -> tuple[tuple[str, str, str], ...]:
    """Each change of one property: its name, and environment.yaml before and after."""
    choices = _choices(target)
    first = {key: options[0] for key, options in choices.items()}
    found = []
    for queueing in ENVIRONMENT["queueing"]:
        base = {**first, "queueing": queueing, "pools": {"p": POOLS[-1]}}
        for key, options in choices.items():
            for option in options:
                found.append(
                    (
                        key,
                        yaml.dump(base, Dumper=yaml.CSafeDumper),
                        yaml.dump({**base, key: option}, Dumper=yaml.CSafeDumper),
                    )
                )
    return tuple(found)


@dataclass(frozen=True)
class Made:
    """A job in an environment: the values of which all its files are made, and what it is called.

    The same values are the same bytes, and one of the files is the values themselves.
    """

    values: dict[str, Any]
    facts: dict[str, Any]
    hash: str


def _made(spec: Layered, written: str) -> Made | None:
    """None where the job cannot be rendered."""
    environment = _environment(written)
    job = resolve.job(spec, environment, "job.yaml")
    if not isinstance(job, Job) or any(True for _ in unsupported(job, environment)):
        return None
    return Made(
        values.build(job, environment, "llm-0"),
        identity.facts(job, environment),
        identity.spec_hash(job, environment),
    )


@pytest.mark.parametrize("target", TARGETS)
def test_names_depend_on_what_changes_bytes_and_on_nothing_else(target: str) -> None:
    seen = set()
    for job in JOBS:
        made = cache(partial(_made, _spec(job, target)))
        for key, before, after in _changes(target):
            one, other = made(before), made(after)
            if one is None or other is None:
                continue
            about = (job, key, one.facts, other.facts)
            if key in LOCATION:
                assert one.hash == other.hash, about
                continue
            changed = one.values != other.values
            assert (one.facts != other.facts) == changed == (one.hash != other.hash), about
            seen |= {key} if changed else set()
    paths = {fact.path[0] for fact in TARGETS[target].facts}
    if target == "rayjob":  # Kueue's is its only queue, and an edit of the job's begins or ends it
        paths -= {"queueing"}
    assert seen == paths, "each declared fact changes some job"


def test_runs_are_outdated_by_a_version_of_trainer_only_where_their_objects_differ() -> None:
    """The version is among the values of a run, and in its name, either way."""
    engine = engines.engine()
    options = [{"version": f"2.{minor}"} for minor in range(4)]
    options += [{**option, "runtime": "own"} for option in options]
    first = {key: choices[0] for key, choices in ENVIRONMENT.items()}
    base = {**first, "pools": {"p": POOLS[-1]}}
    versions = [
        yaml.dump({**base, "targets": {"trainjob": option}}, Dumper=yaml.CSafeDumper)
        for option in options
    ]
    (fact,) = (fact for fact in TARGETS["trainjob"].facts if fact.path[-1] == "version")
    seen = set()

    for name in (*JOBS, "bounded"):
        bounded = {"maxDuration": "1h"} if name == "bounded" else {}
        document = _document(
            "job.yaml", {**JOB, **JOBS.get(name, {}), **bounded, "target": "trainjob"}
        )
        spec = stack((Reader(Folder(Path())).built_in, Layer("job", document)))
        made = {written: _made(spec, written) for written in versions}
        objects = {
            written: {
                path: text
                for path, text in engine.render(it.values, "llm-0", "training").items()
                if path != VALUES_FILE
            }
            for written, it in made.items()
            if it is not None
        }
        for one, other in combinations(objects, 2):
            places = [_environment(written) for written in (one, other)]
            if len({place.targets["trainjob"].runtime for place in places}) > 1:
                continue
            job = resolve.job(spec, places[0], "job.yaml")
            assert isinstance(job, Job)
            same = objects[one] == objects[other]
            if fact.alike(job, *places):
                assert same, (name, one, other)
            seen.add((fact.alike(job, *places), same))
            if not places[0].targets["trainjob"].runtime:
                assert fact.alike(job, *places) == same, (name, one, other)
    assert {(True, True), (False, False)} <= seen
