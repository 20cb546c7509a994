"""Scalars as the API server's clients read them: YAML 1.1 by the Go library behind kubectl.

kubectl, Helm, Argo CD and Flux turn YAML into JSON with sigs.k8s.io/yaml. There `yes`, `on` and `y`
are booleans and 0123 is 83, as in YAML 1.1; but 12:30 and dates stay strings, and a number without
a fraction is an integer however it was written, since JSON has only one kind of number.
https://github.com/kubernetes-sigs/yaml/blob/master/goyaml.v2/resolve.go
"""

from __future__ import annotations

import re

import yaml

from trainwright.datatypes.data import Data
from trainwright.documents.yamlio import Dialect

# A List of all that a cluster has may be large; what is larger is no manifest.
MAX_DOCUMENT = 64 * 1024 * 1024

TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
NULL = ("~", "null", "Null", "NULL", "")


class _Loader(yaml.CSafeLoader):
    """Gives plain scalars the tags that goyaml gives them."""


_STR, _MERGE, _NULL, _BOOL, _INT, _FLOAT = (
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "merge", "null", "bool", "int", "float")
)
_INTEGER = r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|0|[1-9][0-9_]*)"
_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?"
_INFINITE = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    (_NULL, "|".join(NULL), ["~", "n", "N", ""]),
    (_BOOL, "|".join((*TRUE, *FALSE)), list("yYnNtTfFoO")),
    (_INT, _INTEGER, list("-+0123456789")),
    (_FLOAT, f"{_NUMBER}|{_INFINITE}", list("-+.0123456789")),
    (_MERGE, "<<", ["<"]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)


def _boolean(text: str) -> bool:
    if text not in TRUE and text not in FALSE:
        raise ValueError(text)
    return text in TRUE


def _integer(text: str) -> int | float:
    plain = text.replace("_", "").lower()
    digits = plain.lstrip("+-")
    base = 0 if digits[1:2] in ("x", "b", "o") else 8 if digits.startswith("0") else 10
    value = int(plain, base)
    # Beyond 64 bits goyaml goes on to floating point.
    return value if -(2**63) <= value < 2**64 or base == 0 else number(plain)


def number(text: str) -> int | float:
    """Return a number with a fraction or exponent, an integer if it has no fraction, as in Go."""
    if text.lower().endswith((".inf", ".nan")):
        return float(text.replace(".", ""))
    value = float(text.replace("_", ""))
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _key(value: Data) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


GO = Dialect(
    loader=_Loader,
    scalars={
        _STR: str,
        _MERGE: str,
        _NULL: lambda text: None,
        _BOOL: _boolean,
        _INT: _integer,
        _FLOAT: number,
    },
    key=_key,
    controls=True,
)
