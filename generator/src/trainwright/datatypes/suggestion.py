"""Which of several names a misspelt one was meant to be, where there is no doubt."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NEAR = 0.82  # by difflib: a letter too many, too few, or another one in a name of six


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the one name that this is a misspelling of, or "" where it is one of the names, where
    none or several are near, and where digits differ: a100-80gb is another thing than a100-40gb.
    """
    from difflib import get_close_matches  # only mistakes need it

    near = get_close_matches(name, {*names}, n=2, cutoff=_NEAR)
    if len(near) != 1 or near[0] == name:
        return ""
    digits, others = (re.sub(r"\D", "", each) for each in (name, near[0]))
    return "" if len(digits) == len(others) and digits != others else near[0]
