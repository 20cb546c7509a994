"""Situations that cost trainings their time, in the kinds of Kubernetes, and what resembles them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.yamlio import Document
from trainwright.kinds.subjects import subject_of
from trainwright.objects.bundle import Bundle
from trainwright.rules import families
from trainwright.specs import resolve

SITUATIONS = yaml.safe_load(Path(__file__).with_name("situations.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def environment() -> Environment:
    data = {
        "namespace": "n",
        "kubernetes": {"version": "1.36"},
        "targets": {},
        "podSecurity": "privileged",
        "kueue": {"version": "0.19"},
    }
    return resolve.environment("prod", Document("environment.yaml", data, {}, {}))


def _found(situation: dict[str, Data], environment: Environment) -> set[str]:
    objects = yaml.safe_load_all(situation["objects"])
    around = Bundle(Manifest(body=body) for body in objects)
    subjects = [subject_of(manifest, environment, None, around) for manifest in around]
    return {rule.id for subject in subjects for rule, _ in families.run(subject)}


def _named(situations: list[dict[str, Data]]) -> list[object]:
    return [pytest.param(s, id=f"{s['rule']}-{index}") for index, s in enumerate(situations)]


@pytest.mark.parametrize("situation", _named(SITUATIONS["found"]))
def test_it_is_found(situation: dict[str, Data], environment: Environment) -> None:
    assert situation["rule"] in _found(situation, environment)


@pytest.mark.parametrize("situation", _named(SITUATIONS["near_misses"]))
def test_what_resembles_it_is_not(situation: dict[str, Data], environment: Environment) -> None:
    assert situation["rule"] not in _found(situation, environment)
