"""The functions that Kubernetes adds to CEL, for an engine that has the standard ones.

The engine has strings, lists, sets, math, optional values, bindings, comprehensions over two
variables. Here are the rest of lists, regular expressions, URLs, IP addresses and networks,
quantities, and semantic versions.
https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-cel-libraries
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, urlsplit

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError

_EXTENSIONS = ("strings", "lists", "sets", "math", "optional", "bindings", "two-var-comprehensions")
_VARIABLES = ("self", "oldSelf", "previous")

_MISSING = (
    "rules of CRDs (x-kubernetes-validations) are evaluated by CEL: pip install 'trainwright[cel]' "
    "(pip install './generator[cel]' in a clone), or leave out --crds"
)

# The engine has no types for what these functions return, so each is a mapping with one key.
Opaque = dict[str, str]


def _engine() -> Any:
    """Return CEL's own implementation. Raise TrainwrightError if it is not installed."""
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise TrainwrightError(_MISSING) from error
    return cel


@cache
def environment() -> Any:
    """Return the engine with every function, in some 3 ms, and 12 to load it."""
    cel = _engine()

    kinds = {
        "any": cel.Type.DYN,
        "bool": cel.Type.BOOL,
        "int": cel.Type.INT,
        "double": cel.Type.DOUBLE,
        "string": cel.Type.STRING,
        "list": cel.Type.List(cel.Type.DYN),
        "opaque": cel.Type.MAP,
    }

    def overload(name: str, index: int, signature: str, run: Callable[..., Data]) -> Any:
        receiver, _, rest = signature.partition(".") if "." in signature else ("", "", signature)
        parameters, _, result = rest.partition(" -> ")
        words = [*([receiver] if receiver else []), *parameters.split()]
        return cel.Overload(
            f"{name}_{index}",
            return_type=kinds[result],
            parameters=[kinds[word] for word in words],
            is_member=bool(receiver),
            impl=run,
        )

    functions = [
        cel.FunctionDecl(
            name, [overload(name, i, *signature) for i, signature in enumerate(overloads)]
        )
        for name, overloads in _FUNCTIONS.items()
    ]
    names = "".join(f"- name: {name}\n" for name in _EXTENSIONS)
    config = cel.NewEnvConfigFromYaml(f"extensions:\n{names}")
    variables = dict.fromkeys(_VARIABLES, cel.Type.DYN)
    return cel.NewEnv(config=config, variables=variables, functions=functions)


# --- lists and text ------------------------------------------------------------------------------


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(a <= b for a, b in pairwise(items))


# Groups outside of escapes and classes. They are made non-capturing, as `find` returns the whole
# match and not what groups capture.
_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\]){0,500}\]|\((?:\?P?<\w{1,100}>|(?!\?))", re.DOTALL)


@cache
def _extracting() -> Any:
    """Return CEL's own search, by RE2 as in Kubernetes: a CRD's author may write any pattern."""
    cel = _engine()

    config = cel.NewEnvConfigFromYaml("extensions:\n- name: optional\n- name: regex\n")
    variables = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(config=config, variables=variables).compile("regex.extractAll(text, pattern)")


def _find(text: str, pattern: str) -> str:
    return next(iter(_find_all(text, pattern)), "")


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    plain = _GROUP.sub(lambda m: "(?:" if m[0][0] == "(" else m[0], pattern)
    result = _extracting().eval(data={"text": text, "pattern": plain})
    matches = [str(match) for match in result.plain_value()]
    return matches if most < 0 else matches[:most]


# --- URLs ----------------------------------------------------------------------------------------


def _url(text: str) -> Opaque:
    parts = urlsplit(text)
    if not (parts.scheme or text.startswith("/")) or " " in text:
        raise ValueError(f"{text!r} is not a URL")
    return {"url": text}


def _part(take: Callable[[SplitResult], str]) -> Callable[[Opaque], str]:
    return lambda url: take(urlsplit(url["url"]))


def _port(url: Opaque) -> str:
    port = urlsplit(url["url"]).port
    return "" if port is None else str(port)


# --- addresses -----------------------------------------------------------------------------------


def _address(value: str | Opaque) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(value if isinstance(value, str) else value["ip"])


def _network(value: str | Opaque) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(value if isinstance(value, str) else value["cidr"], strict=False)


def _ip(value: str | Opaque) -> Opaque:
    if isinstance(value, dict):  # of a network
        return {"ip": str(ipaddress.ip_interface(value["cidr"]).ip)}
    return {"ip": str(_address(value))}


def _cidr(text: str) -> Opaque:
    if "/" not in text:
        raise ValueError(f"{text!r} is not a network")
    return {"cidr": str(ipaddress.ip_interface(text))}


def _contains(network: Opaque, address: str | Opaque) -> bool:
    return _address(address) in _network(network)


def _contains_network(outer: Opaque, inner: str | Opaque) -> bool:
    wide, narrow = _network(outer), _network(inner)
    return wide.version == narrow.version and narrow.subnet_of(wide)  # type: ignore[arg-type]


def _about(attribute: str) -> Callable[[Opaque], bool]:
    return lambda address: bool(getattr(_address(address), attribute))


def _link_local(*, multicast: bool) -> Callable[[Opaque], bool]:
    def run(value: Opaque) -> bool:
        address = _address(value)
        if not multicast:
            return address.is_link_local
        wide = "224.0.0.0/24" if address.version == 4 else "ff02::/16"
        return address in ipaddress.ip_network(wide)

    return run


def _is_unicast(value: Opaque) -> bool:
    address = _address(value)
    broadcast = str(address) == "255.255.255.255"
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    return not (special or address.is_link_local or broadcast)


# --- quantities and versions ---------------------------------------------------------------------

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*))*))?"
    r"(?:\+[\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*)?"
)


def _quantity(text: str) -> Opaque:
    amount = quantity.read(text)
    if amount is None:
        raise ValueError(f"{text!r} is not a quantity")
    return {"quantity": str(amount.normalize() if amount else 0)}


def _semver(text: str) -> Opaque:
    if not _SEMVER.fullmatch(text):
        raise ValueError(f"{text!r} is not a semantic version")
    return {"semver": text}


def _amount(value: Opaque | int) -> Any:
    """Return the key by which quantities and versions are compared."""
    if isinstance(value, int):
        return quantity.read(str(value))
    if "quantity" in value:
        return quantity.read(value["quantity"])
    major, minor, patch, before = _parts(value)
    # https://semver.org/#spec-item-11: pre-releases before the release, numbers before words
    words = [(0, int(w), "") if w.isdigit() else (1, 0, w) for w in before.split(".") if w]
    return (major, minor, patch, not before, words)


def _parts(value: Opaque) -> tuple[int, int, int, str]:
    match = _SEMVER.fullmatch(value["semver"])
    assert match is not None, "made by _semver alone"
    return int(match[1]), int(match[2]), int(match[3]), match[4] or ""


def _compared(left: Opaque, right: Opaque) -> int:
    a, b = _amount(left), _amount(right)
    return int(a > b) - int(a < b)


def _sum(left: Opaque, right: Opaque | int) -> Opaque:
    return _quantity(f"{_amount(left) + _amount(right):f}")


def _difference(left: Opaque, right: Opaque | int) -> Opaque:
    return _quantity(f"{_amount(left) - _amount(right):f}")


def _whole(value: Opaque) -> int:
    amount = _amount(value)
    if amount != int(amount):
        raise ValueError(f"{value['quantity']} is not a whole number")
    return int(amount)


def _valid(make: Callable[[str], Opaque]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            make(text)
        except ValueError:
            return False
        return True

    return run


# Signatures as "receiver.parameters -> result".
_FUNCTIONS: dict[str, tuple[tuple[str, Callable[..., Data]], ...]] = {
    "isSorted": (("list. -> bool", _is_sorted),),
    "sum": (("list. -> any", sum),),
    "min": (("list. -> any", min),),
    "max": (("list. -> any", max),),
    "find": (("string.string -> string", _find),),
    "findAll": (("string.string -> list", _find_all), ("string.string int -> list", _find_all)),
    "url": (("string -> opaque", _url),),
    "isURL": (("string -> bool", _valid(_url)),),
    "getScheme": (("opaque. -> string", _part(lambda url: url.scheme)),),
    "getHost": (("opaque. -> string", _part(lambda url: url.netloc.rpartition("@")[2])),),
    "getHostname": (("opaque. -> string", _part(lambda url: url.hostname or "")),),
    "getPort": (("opaque. -> string", _port),),
    "getEscapedPath": (("opaque. -> string", _part(lambda url: url.path)),),
    "ip": (("string -> opaque", _ip), ("opaque. -> opaque", _ip)),
    "isIP": (("string -> bool", _valid(_ip)),),
    "ip.isCanonical": (("string -> bool", lambda text: str(_address(text)) == text),),
    "family": (("opaque. -> int", lambda value: _address(value).version),),
    "isUnspecified": (("opaque. -> bool", _about("is_unspecified")),),
    "isLoopback": (("opaque. -> bool", _about("is_loopback")),),
    "isLinkLocalMulticast": (("opaque. -> bool", _link_local(multicast=True)),),
    "isLinkLocalUnicast": (("opaque. -> bool", _link_local(multicast=False)),),
    "isGlobalUnicast": (("opaque. -> bool", _is_unicast),),
    "cidr": (("string -> opaque", _cidr),),
    "isCIDR": (("string -> bool", _valid(_cidr)),),
    "containsIP": (("opaque.string -> bool", _contains), ("opaque.opaque -> bool", _contains)),
    "containsCIDR": (
        ("opaque.string -> bool", _contains_network),
        ("opaque.opaque -> bool", _contains_network),
    ),
    "prefixLength": (("opaque. -> int", lambda value: _network(value).prefixlen),),
    "masked": (("opaque. -> opaque", lambda value: {"cidr": str(_network(value))}),),
    "quantity": (("string -> opaque", _quantity),),
    "isQuantity": (("string -> bool", _valid(_quantity)),),
    "sign": (("opaque. -> int", lambda value: _compared(value, {"quantity": "0"})),),
    "isInteger": (("opaque. -> bool", lambda value: _amount(value) == int(_amount(value))),),
    "asInteger": (("opaque. -> int", _whole),),
    "asApproximateFloat": (("opaque. -> double", lambda value: float(_amount(value))),),
    "add": (("opaque.opaque -> opaque", _sum), ("opaque.int -> opaque", _sum)),
    "sub": (("opaque.opaque -> opaque", _difference), ("opaque.int -> opaque", _difference)),
    "isLessThan": (("opaque.opaque -> bool", lambda a, b: _compared(a, b) < 0),),
    "isGreaterThan": (("opaque.opaque -> bool", lambda a, b: _compared(a, b) > 0),),
    "compareTo": (("opaque.opaque -> int", _compared),),
    "semver": (("string -> opaque", _semver),),
    "isSemver": (("string -> bool", _valid(_semver)),),
    "major": (("opaque. -> int", lambda value: _parts(value)[0]),),
    "minor": (("opaque. -> int", lambda value: _parts(value)[1]),),
    "patch": (("opaque. -> int", lambda value: _parts(value)[2]),),
}
