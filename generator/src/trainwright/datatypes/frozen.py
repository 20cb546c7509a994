"""`dataclass` for frozen values, of which a command defines some hundred before it begins, and
`cached_property` for what is computed from their fields.

The standard library compiles six methods for each class, which takes half a millisecond per class:
a fifth of a short command. Here only `__init__` is compiled, when the first object is made, which
most classes never have in one command; the other methods are shared by all. That no field is
assigned later is enforced by mypy, which sees the standard library's decorator, and not at run
time: that would make each construction several times slower.
https://docs.python.org/3/library/dataclasses.html#frozen-instances

Up to Python 3.11 the standard library takes a lock to compute a property. Rules read some forty of
them per object, where the lock costs as much as the rules.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property", "dataclass"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - it is what it stands for
        """A value that is computed when it is first read, and then an attribute like any other."""

        def __init__(self, compute):
            self._compute = compute
            self._name = compute.__name__
            self.__doc__ = compute.__doc__

        def __get__(self, instance, _owner):
            value = instance.__dict__[self._name] = self._compute(instance)
            return value


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, order: bool = False, **options: bool):
        """What `dataclasses.dataclass` does, in a fraction of the time for frozen classes."""
        if not frozen:
            return dataclasses.dataclass(order=order, **options)

        def decorated(cls: type) -> type:
            written = vars(cls)
            # Without one the standard library writes a signature, which takes a millisecond.
            cls.__doc__ = cls.__doc__ or cls.__name__
            made = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
            for name, method in (*_methods(made), *(_comparisons(made) if order else ())):
                if name not in written:
                    setattr(made, name, method)
            return made

        return decorated


def _methods(cls: type[Any]) -> Iterator[tuple[str, Callable[..., object]]]:
    """The methods of a value that are not its own, as the standard library defines them."""
    fields = dataclasses.fields(cls)
    compared = _compared(cls)
    hashed = attrgetter("__class__", *(it.name for it in fields if _is_hashed(it)))
    shown = [it.name for it in fields if it.repr]

    def init(self: object, *arguments: object, **named: object) -> None:
        cls.__init__ = _init(cls)
        cls.__init__(self, *arguments, **named)

    def equals(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def digest(self: object) -> int:
        return hash(hashed(self))

    def text(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({values})"

    yield "__init__", init
    yield "__eq__", equals
    yield "__hash__", digest
    yield "__repr__", text


def _comparisons(cls: type[Any]) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the name and function of each ordering method, which compares field by field."""
    compared = _compared(cls)

    def method(compare: Callable[[Any, Any], object]) -> Callable[..., object]:
        def compares(self: object, other: object) -> object:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return compare(compared(self), compared(other))

        return compares

    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        yield f"__{compare.__name__}__", method(compare)


def _compared(cls: type[Any]) -> Callable[[object], Any]:
    """Return the function whose result decides whether two values are equal."""
    # With the class first, the key of a single field is a tuple as well.
    return attrgetter("__class__", *(it.name for it in dataclasses.fields(cls) if it.compare))


def _is_hashed(field: dataclasses.Field[Any]) -> bool:
    return field.compare if field.hash is None else field.hash


def _init(cls: type[Any]) -> Any:
    """`__init__` as the standard library writes it for a class whose fields may be assigned."""
    namespace: dict[str, Any] = {"_ABSENT": dataclasses.MISSING}
    positional, by_name, body = ["self"], ["*"], ["  pass"]
    for field in dataclasses.fields(cls):
        name = parameter = value = field.name
        if field.default is not dataclasses.MISSING:
            namespace[f"_{name}"] = field.default
            parameter = f"{name}=_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            namespace[f"_{name}"] = field.default_factory
            parameter, value = f"{name}=_ABSENT", f"_{name}() if {name} is _ABSENT else {name}"
        (by_name if field.kw_only else positional).append(parameter)
        body.append(f"  self.{name} = {value}")
    parameters = positional + (by_name if len(by_name) > 1 else [])
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *body]), namespace)  # noqa: S102 - names
    return namespace["__init__"]
