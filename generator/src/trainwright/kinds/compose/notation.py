"""How Compose writes texts, variables and labels.

https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainwright.datatypes.data import Data, digits, mapping, sequence

# `$$` is a dollar sign; $NAME and ${NAME...} are taken from the shell that starts it all.
_INTERPOLATION = re.compile(r"\$(?:\$|([A-Za-z_]\w*)|\{([A-Za-z_]\w*+)[^}]{0,500}+\})")


def plain(text: str) -> str:
    """Return text after Compose's own interpolation, as far as no shell is needed for it."""
    return _INTERPOLATION.sub(lambda m: "$" if m.group() == "$$" else m.group(), text)


# What Kubernetes reads in a text: the first of two dollar signs, and the one of $(NAME).
_READ_BY_KUBERNETES = re.compile(r"\$(?=[$(])")


def literal(text: str) -> str:
    """Return `plain` text as it has to be written so that `expand` changes nothing in it."""
    return _READ_BY_KUBERNETES.sub("$$", plain(text))


def asked(value: str) -> list[str]:
    """Return the variables that a value takes from the shell."""
    names = (m.group(1) or m.group(2) for m in _INTERPOLATION.finditer(value))
    return [name for name in names if name]


_DEFAULT = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_]\w*+):?-(?P<default>[^{}$]{0,500}+)\})")


def with_defaults(value: str) -> Data:
    """Return a value with the defaults that it gives to variables of the shell.

    Where that is all of the value, Compose reads a number as a number.
    """
    whole = _DEFAULT.fullmatch(value)
    number = digits(whole["default"]) if whole and whole["name"] else None
    if number is not None:
        return number
    return _DEFAULT.sub(lambda m: m[0] if m["name"] is None else m["default"], value)


def word(value: Data) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def pairs(written: Data) -> dict[str, str]:
    """Return the pairs of a mapping or a list of NAME=VALUE, such as labels."""
    if isinstance(written, Mapping):
        return {str(name): plain(word(value)) for name, value in written.items()}
    items = (str(item).partition("=") for item in sequence(written))
    return {name: plain(value) for name, _, value in items}


def dependencies(written: Data) -> dict[str, str]:
    """Return the condition that is awaited of each service, from a list of names or a mapping."""
    if isinstance(written, Mapping):
        return {
            str(name): str(mapping(dependency).get("condition", _STARTED))
            for name, dependency in written.items()
        }
    return {str(name): _STARTED for name in sequence(written)}


_STARTED = "service_started"


def variables(written: Data) -> dict[str, Data]:
    """Return variables from a mapping or a list of NAME=VALUE; None is a value from the shell."""
    if isinstance(written, Mapping):
        return {str(name): value for name, value in written.items()}
    parts = (str(item).partition("=") for item in sequence(written))
    return {name: value if equals else None for name, equals, value in parts}


def long_volume(text: str) -> dict[str, Data]:
    """The long form of a volume as `source:target:options`, or of a target alone."""
    if ":" not in text:
        return {"type": "volume", "target": text}
    source, target, *options = text.split(":")
    local = source.startswith((".", "/", "~"))
    return {
        "type": "bind" if local else "volume",
        "source": source,
        "target": target,
        "read_only": "ro" in ",".join(options).split(","),
        **({"bind": {"create_host_path": True}} if local else {}),
    }
