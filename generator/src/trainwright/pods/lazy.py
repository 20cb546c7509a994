"""functools.cached_property without the lock that it takes up to Python 3.11.

Rules read some forty of them an object, where the lock costs as much as the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["cached_property"]

_Value = TypeVar("_Value")

if sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(Generic[_Value]):  # noqa: N801 - it is what it stands for
        """A value that is computed when it is first read, and then an attribute like any other."""

        def __init__(self, compute: Callable[[Any], _Value]):
            self._compute = compute
            self._name = compute.__name__
            self.__doc__ = compute.__doc__

        def __get__(self, instance: Any, _owner: type) -> _Value:
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
