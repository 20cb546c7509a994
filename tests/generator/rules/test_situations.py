"""Situations that cost trainings their time, in the kinds of Kubernetes, and what resembles them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.objects.bundle import Bundle
from trainwright.rules import families

SITUATIONS = yaml.load(
    Path(__file__).with_name("situations.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader
)


def _found(objects: str) -> set[str]:
    """Return the rules that `trainwright validate` finds broken in objects of other people."""
    around = Bundle(Manifest(body=body) for body in yaml.load_all(objects, Loader=yaml.CSafeLoader))
    subjects = [subject_of(manifest, nowhere("1.36"), None, around) for manifest in around]
    return {rule.id for subject in subjects for rule, _ in families.run(subject)}


def _with(key: str) -> list[object]:
    return [
        pytest.param(s["rule"], s[key], id=f"{s['rule']}-{index}")
        for index, s in enumerate(SITUATIONS)
        if key in s
    ]


@pytest.mark.parametrize(("rule", "objects"), _with("found"))
def test_it_is_found(rule: str, objects: str) -> None:
    assert rule in _found(objects)


@pytest.mark.parametrize(("rule", "objects"), _with("near_miss"))
def test_what_resembles_it_is_not(rule: str, objects: str) -> None:
    assert rule not in _found(objects)
