"""`trainwright.datatypes.frozen` makes what the standard library makes, in less time."""

import dataclasses
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from trainwright.datatypes import frozen

Decorator = Callable[..., Callable[[type], type]]
BOTH: list[Decorator] = [dataclasses.dataclass, frozen.dataclass]


def point(decorator: Decorator, **options: bool) -> Any:
    @decorator(frozen=True, **options)
    class Point:
        x: int
        y: int = 0
        secret: str = dataclasses.field(default="", repr=False)
        note: str = dataclasses.field(default="", compare=False)
        waits: list[int] = dataclasses.field(default_factory=list, hash=False)

    return Point


@dataclasses.dataclass(frozen=True)
class _Standard:
    name: str
    found: float


@frozen.dataclass(frozen=True, slots=True)
class _Ours:
    name: str
    found: float = 1.0


@pytest.mark.parametrize("options", [{}, {"slots": True}, {"slots": True, "kw_only": True}])
def test_a_value_equals_hashes_and_reads_as_one_of_the_standard_library(options):
    standard, ours = (point(decorator, **options) for decorator in BOTH)
    for kind in (standard, ours):
        assert kind(x=1) == kind(x=1, note="of no consequence")
        assert kind(x=1) != kind(x=1, secret="other")
        assert kind(x=1) != kind(x=1, waits=[1])
        assert hash(kind(x=1)) == hash(kind(x=1, note="other", waits=[1]))
        assert hash(kind(x=1)) != hash(kind(x=2))
    assert standard(x=1) != ours(x=1)
    assert ours(x=1) != (1, 0, "", "", [])
    assert repr(ours(x=1, secret="hidden")) == repr(standard(x=1, secret="hidden"))
    assert dataclasses.asdict(ours(x=1)) == dataclasses.asdict(standard(x=1))
    assert dataclasses.replace(ours(x=1), y=2) == ours(x=1, y=2)
    assert [it.name for it in dataclasses.fields(ours)] == [
        it.name for it in dataclasses.fields(standard)
    ]


@pytest.mark.parametrize("decorator", BOTH)
def test_a_value_without_fields_equals_any_other(decorator):
    @decorator(frozen=True, slots=True)
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert len({Nothing(), Nothing()}) == 1


def test_what_is_no_number_equals_itself_in_a_value():
    """On every Python; in values of the standard library it does so until 3.12 only."""
    nan = float("nan")
    assert _Ours("a", nan) == _Ours("a", nan)
    standard = _Standard("a", nan) == _Standard("a", nan)
    assert standard is (sys.version_info < (3, 13))


def test_methods_of_its_own_stay():
    @frozen.dataclass(frozen=True, slots=True)
    class Name:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

        def __repr__(self) -> str:
            return self.text

    assert Name("A") == Name("a")
    assert {Name("A")} == {Name("a")}
    assert repr(Name("A")) == "A"


def test_a_value_travels_between_processes():
    value = _Ours("a", 2.0)
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("decorator", BOTH)
def test_values_with_an_order_are_sorted_by_their_fields(decorator):
    @decorator(frozen=True, slots=True, order=True)
    class Version:
        major: int
        minor: int = 0
        note: str = dataclasses.field(default="", compare=False)

    class Other(Version):
        pass

    older, newer = Version(1, 2), Version(1, 10)
    assert sorted([newer, Version(2), older]) == [older, newer, Version(2)]
    assert older < newer
    assert older <= Version(1, 2, "b") <= Version(1, 2, "a") < newer
    assert newer > older
    assert newer >= older
    assert not older > Version(1, 2)
    for stranger in (Other(9), (9, 9)):
        with pytest.raises(TypeError, match="not supported between instances"):
            assert older < stranger


def test_values_that_change_are_of_the_standard_library():
    @frozen.dataclass(slots=True)
    class Counter:
        count: int = 0

    counter = Counter()
    counter.count += 1
    assert counter == Counter(1)


@pytest.mark.parametrize("written", ["", "What it is."])
def test_a_value_is_described_as_it_is_written_or_by_its_name(written):
    kind = type("Kind", (), {"__doc__": written or None, "__annotations__": {"x": int}})
    assert frozen.dataclass(frozen=True)(kind).__doc__ == (written or "Kind")


@pytest.mark.parametrize("decorator", BOTH)
def test_construction_takes_what_the_standard_library_takes(decorator):
    kind = point(decorator, slots=True)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        kind()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        kind(1, z=1)
    assert kind(1, 2, waits=[3]).waits == [3]
    assert kind(1).waits is not kind(1).waits
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        point(decorator, kw_only=True)(1)


@pytest.mark.parametrize("decorator", BOTH)
def test_a_value_of_a_derived_class_has_the_fields_of_both(decorator):
    base = point(decorator)

    @decorator(frozen=True, kw_only=True)
    class Point3(base):
        z: int = 5

    assert (Point3(1, z=2).x, Point3(1).z, base(1).x) == (1, 5, 1)
    assert Point3(1) == Point3(1, 0, z=5)
