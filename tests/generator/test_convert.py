"""Data becomes a value by the names of fields, and by what the model says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from trainwright.datatypes.environment import Pool, TargetOptions
from trainwright.datatypes.fields import NOT_WRITTEN, spelled, written
from trainwright.datatypes.job import Elastic
from trainwright.datatypes.volumes import Volume
from trainwright.specs import convert


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str = field(metadata=NOT_WRITTEN)
    most_nodes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    first_part: Part | None = None
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Part] = field(default_factory=dict)
    limit_cpu: str = field(default="", metadata=written("limits", "cpu"))
    limit_memory: str = field(default="", metadata=written("limits", "memory"))
    seconds: int = field(default=0, metadata=written(read=len))
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("name", "key"), [("image", "image"), ("price_per_gpu_hour", "pricePerGpuHour")]
)
def test_a_field_is_spelled_as_json_has_it(name: str, key: str) -> None:
    assert spelled(name) == key


def test_what_is_not_written_has_its_default() -> None:
    assert convert.value(Whole, {}) == Whole()
    assert convert.value(Whole, {"limits": None, "parts": None, "unknown": 1}) == Whole()


def test_further_keys_lead_to_a_field() -> None:
    found = convert.value(Whole, {"limits": {"cpu": "2"}})
    assert (found.limit_cpu, found.limit_memory) == ("2", "")
    assert convert.value(Whole, {"limits": "none of ours"}) == Whole()


def test_a_value_is_made_of_what_is_written() -> None:
    assert convert.value(Whole, {"seconds": "four"}).seconds == 4


def test_keys_of_a_mapping_are_names_in_order() -> None:
    data = {"b": {"mostNodes": 2}, "a": {}}
    parts = {"a": Part(name="a"), "b": Part(name="b", most_nodes=2)}
    assert convert.value(Whole, {"parts": data}).parts == tuple(parts.values())
    assert convert.value(Whole, {"byName": data}).by_name == parts


def test_lists_become_tuples_however_deep() -> None:
    assert convert.value(Whole, {"groups": {"a": ["x", "y"]}}).groups == {"a": ("x", "y")}


def test_what_is_given_wins_and_is_not_read() -> None:
    found = convert.value(Whole, {"firstPart": "not a mapping"}, first_part=Part(name="mine"))
    assert found.first_part == Part(name="mine")


def test_only_what_is_written_is_laid_over_other_values() -> None:
    assert convert.written(TargetOptions, {"rendezvous": {"backend": "c10d"}}) == {
        "rendezvous_backend": "c10d"
    }


def test_values_of_the_model() -> None:
    assert convert.value(Pool, {"gpusPerNode": 8, "tolerations": []}, name="p") == Pool(
        name="p", gpus_per_node=8
    )
    assert convert.value(Volume, {"claim": "c", "mountPath": "/v"}, name="v").source == {
        "persistentVolumeClaim": {"claimName": "c"}
    }
    assert convert.value(Elastic, {"minNodes": 1, "maxNodes": 2, "recovery": "restart"}) == Elastic(
        min_nodes=1, max_nodes=2
    )
