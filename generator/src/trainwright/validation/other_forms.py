"""Values in the form that Kubernetes, Docker, Slurm or a shell has, as fields of a job spec.

A form returns the fields by their names, or None for a value that does not have it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainwright.datatypes.model import Data
from trainwright.datatypes.tolerant import mapping, mappings
from trainwright.pods.image_reference import split

Fields = Mapping[str, Data]
Form = Callable[[str, Data], Fields | None]

_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT])i?[bB]?")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_AMOUNT = re.compile(r"(\d+) ?(s|m|h|d)(?:ec|in|r|econd|inute|our|ay)?s?")
_ASSIGNED = re.compile(r"[A-Za-z_][\w.-]*=")
_DECIMAL = re.compile(r"(\d+)\.(\d+) ?([mhd])")
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_BIND = re.compile(r"([a-z0-9-]+):(/[^:]+)(:ro)?")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where a container has it, and no file of ours


def at(path: str, value: Data) -> Fields:
    """A value at a dotted path."""
    first, *rest = path.split(".")
    for key in reversed(rest):
        value = {key: value}
    return {first: value}


# --- amounts -------------------------------------------------------------------------------------


def size(value: Data) -> str:
    """Return "64Gi" for "64GB", "64g" or "64 Gi": units of Docker and Slurm are binary; or ""."""
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1]}{found[2].upper()}i" if found else ""


def clock(text: str) -> int | None:
    """Return the seconds of a limit of Slurm: minutes, minutes:seconds, hours:minutes:seconds,
    days-hours and so on, or None.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        return None
    days, first, second, third = found.groups()
    if days is not None:
        hours, minutes, seconds = int(first), int(second or 0), int(third or 0)
    elif third is not None:
        hours, minutes, seconds = int(first), int(second), int(third)
    else:
        hours, minutes, seconds = 0, int(first), int(second or 0)
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds or None


def duration(value: Data) -> str:
    """Return "36h" for "1-12:00:00", "36 hours" or "36h", or ""."""
    if not isinstance(value, str):
        return ""
    if found := _AMOUNT.fullmatch(value.strip().lower()):
        return f"{found[1]}{found[2]}"
    seconds: int | None = _decimal(value) or _iso(value)
    seconds = seconds or (clock(value) if ":" in value or "-" in value else None)
    if not seconds:
        return ""
    length, unit = next(one for one in _LENGTHS if seconds % one[0] == 0)
    return f"{seconds // length}{unit}"


def _decimal(text: str) -> int:
    """Return the seconds of "1.5h", or 0."""
    found = _DECIMAL.fullmatch(text.strip().lower())
    return round(float(f"{found[1]}.{found[2]}") * _SECONDS[found[3]]) if found else 0


def _iso(text: str) -> int:
    """Return the seconds of "PT24H", a duration of ISO 8601, or 0."""
    found = _ISO.fullmatch(text.strip().upper())
    units = zip(found.groups(), "dhms", strict=True) if found else ()
    return sum(int(count or 0) * _SECONDS[unit] for count, unit in units)


_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_LENGTHS = ((3600, "h"), (60, "m"), (1, "s"))


def gpu_count(value: Data) -> int | None:
    """Return the GPUs of `4`, "4", `gpu:4` or `gpu:a100:4` of Slurm, or None."""
    for resource in str(value).split(","):
        name, *rest = resource.partition("(")[0].split(":")
        if name.isdecimal() and not rest:
            return int(name)
        if name == "gpu":
            return int(rest[-1]) if rest and rest[-1].isdecimal() else 1
    return None


# --- what a container has ------------------------------------------------------------------------


def image(value: Data) -> Fields | None:
    if not isinstance(value, str) or not value or set(value) & set(" \t\n"):
        return None
    repository, tag, digest = split(value)
    parts = {"repository": repository, "tag": tag, "digest": digest}
    return {"image": {key: part for key, part in parts.items() if part}}


def variables(value: Data) -> Fields | None:
    """Variables of a container, or of Docker, by their names."""
    env, secrets = dict[str, Data](), dict[str, Data]()
    for name, entry in _pairs(value):
        source = mapping(mapping(entry).get("valueFrom"))
        if secret := mapping(source.get("secretKeyRef")):
            secrets[name] = {key: secret.get(key, "") for key in ("name", "key")}
        elif source:
            env[name] = _source(source)
        else:
            env[name] = _word(
                mapping(entry).get("value", "") if "name" in mapping(entry) else entry
            )
    found = {"env": env, "secrets": secrets}
    return {key: named for key, named in found.items() if named and "" not in named} or None


def _pairs(value: Data) -> Iterable[tuple[str, Data]]:
    if isinstance(value, Mapping):
        yield from value.items()
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, str):
            name, _, text = entry.partition("=")
            yield name, text
        else:
            yield str(mapping(entry).get("name", "")), entry


def _word(value: Data) -> Data:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _source(source: Fields) -> Fields:
    """Where the cluster takes a variable from."""
    if field := mapping(source.get("fieldRef")):
        return {"field": field.get("fieldPath", "")}
    if resource := mapping(source.get("resourceFieldRef")):
        return {key: resource[key] for key in ("resource", "divisor") if key in resource}
    key = mapping(source.get("configMapKeyRef"))
    return {"configMap": key.get("name", ""), "key": key.get("key", "")}


def volumes(value: Data) -> Fields | None:
    """Volumes of a pod, or of Docker, by their names."""
    found = dict[str, Data]()
    for entry in value if isinstance(value, list) else ():
        bind = _BIND.fullmatch(entry) if isinstance(entry, str) else None
        name = bind[1] if bind else mapping(entry).get("name")
        if not name:
            return None
        if bind:
            read_only: Fields = {"readOnly": True} if bind[3] else {}
            found[name] = {"claim": name, "mountPath": bind[2], **read_only}
        else:
            found[str(name)] = {**_volume(entry), "mountPath": f"/{name}"}
    return {"volumes": found} if found else None


def _volume(entry: Fields) -> Fields:
    """A volume of a pod without its name."""
    if claim := mapping(entry.get("persistentVolumeClaim")):
        return {"claim": claim.get("claimName", "")}
    return {key: item for key, item in entry.items() if key != "name"}


def mounted(volumes: Mapping[str, Data], mounts: Data) -> Fields:
    """Volumes with the mounts that a container has of them; one in memory at /dev/shm is `shm`."""
    found, shm = dict(volumes), ""
    for mount in mappings(mounts):
        name = str(mount.get("name", ""))
        scratch = mapping(found.get(name)).get("emptyDir")
        if mount.get("mountPath") == _SHARED_MEMORY and (name not in found or scratch is not None):
            shm = mapping(scratch).get("sizeLimit", "auto")
            found.pop(name, None)
        elif name in found:
            options = {key: item for key, item in mount.items() if key != "name"}
            found[name] = {**found[name], **options}
    return {key: field for key, field in (("volumes", found), ("shm", shm)) if field}


def flags(value: Data) -> Fields | None:
    """Words of a command line, or a mapping."""
    if isinstance(value, Mapping):
        return {"flags": value}
    words = _words(value)
    if words and all(isinstance(word, str) and _ASSIGNED.match(word) for word in words):
        words = [f"--{word}" for word in words]
    if not words or not str(words[0]).startswith("--"):
        return None
    found, key = dict[str, Data](), ""
    for word in words:
        if isinstance(word, str) and word.startswith("--"):
            key, equals, text = word[2:].partition("=")
            found[key], key = (text, "") if equals else (True, key)
        elif key:
            found[key], key = word, ""
        else:
            return None
    return {"flags": found}


def arguments(value: Data) -> Fields | None:
    """Arguments of the program: flags, or words that are none."""
    if found := flags(value):
        return found
    words = _words(value)
    return {"entrypoint": {"args": [str(word) for word in words]}} if words else None


def _words(value: Data) -> list[Data]:
    """A command line as a list; nothing of what is none, as with a quote that is not closed."""
    if not isinstance(value, str):
        return value if isinstance(value, list) else []
    try:
        return list(shlex.split(value))
    except ValueError:
        return []


def entrypoint(value: Data) -> Fields | None:
    """A command line."""
    words = _words(value)
    if not words or any(isinstance(word, dict | list) for word in words):
        return None
    argv = [str(word) for word in words]
    if argv[0].endswith(".py"):
        argv = ["python", *argv]
    if len(argv) > 1 and _PYTHON.fullmatch(argv[0]) and argv[1].endswith(".py"):
        rest: Fields = {"args": argv[2:]} if argv[2:] else {}
        return {"entrypoint": {"script": argv[1], **rest}}
    return {"entrypoint": {"argv": argv}}


def container(value: Data) -> Fields | None:
    """The only container of a pod."""
    only = mapping(value[0]) if isinstance(value, list) and len(value) == 1 else {}
    found = dict[str, Data]()
    for key, item in only.items():
        form = _OF_A_CONTAINER.get(key)
        fields = form(item) if form else None
        if fields is None and key != "name":
            return None
        found |= fields or {}
    return found or None


_OF_A_CONTAINER: Mapping[str, Callable[[Data], Fields | None]] = {
    "image": image,
    "command": entrypoint,
    "args": arguments,
    "env": variables,
}


def resources(value: Data) -> Fields | None:
    """Amounts of a service, as `deploy` of Compose has them."""
    found = dict[str, Data]()
    amounts = mapping(mapping(value).get("resources"))
    for amount in (mapping(amounts.get("reservations")), mapping(amounts.get("limits"))):
        if memory := amount.get("memory"):
            found["memory"] = size(memory) or memory
        if cores := amount.get("cpus"):
            found["cpu"] = str(cores)
    return {"resources": found} if found else None


def service_account(value: Data) -> Fields | None:
    """The ServiceAccount of a chart's values."""
    name = mapping(value).get("name")
    return {"serviceAccount": name} if isinstance(name, str) else None


# --- mappings by name, and what an environment has ------------------------------------------------


def named(field: str, value: Data) -> Fields | None:
    """A list of names, or of mappings that have one, by their names."""
    found = dict[str, Data]()
    for entry in value if isinstance(value, list) else [value]:
        name = entry if isinstance(entry, str) else mapping(entry).get("name")
        if not isinstance(name, str):
            return None
        found[name] = {key: item for key, item in mapping(entry).items() if key != "name"}
    return {field: found} if found else None


def labels(field: str, value: Data) -> Fields | None:
    """`team=nlp`, or a list of these or of names with values, by their names."""
    texts = value if isinstance(value, list) else [value]
    if texts and all(mapping(text).keys() == {"name", "value"} for text in texts):
        texts = [f"{text['name']}={text['value']}" for text in texts]
    pairs = [text.partition("=") for text in texts if isinstance(text, str) and "=" in text]
    found = {name: text for name, _, text in pairs}
    return {field: found} if len(pairs) == len(texts) else None


def kubernetes(value: Data) -> Fields | None:
    """The version of a cluster."""
    return None if isinstance(value, dict | list) else at("kubernetes.version", str(value))


# --- the forms of other_names.yaml ---------------------------------------------------------------


def _scalar(field: str, value: Data) -> Fields | None:
    return None if isinstance(value, dict | list) else at(field, value)


def _text(field: str, value: Data) -> Fields | None:
    return None if isinstance(value, dict | list) else at(field, str(value))


def _number(field: str, value: Data) -> Fields | None:
    text = str(value)
    return at(field, int(text)) if text.isdecimal() else None


def _mapping(field: str, value: Data) -> Fields | None:
    return at(field, value) if isinstance(value, Mapping) else None


def _names(field: str, value: Data) -> Fields | None:
    """References by name, without their mappings."""
    entries = value if isinstance(value, list) else [value]
    return at(field, [mapping(entry).get("name", entry) for entry in entries])


def _seconds(field: str, value: Data) -> Fields | None:
    return at(field, f"{value}s") if type(value) is int else _duration(field, value)


def _duration(field: str, value: Data) -> Fields | None:
    found = duration(value)
    return at(field, found) if found else None


def _size(field: str, value: Data) -> Fields | None:
    return _text(field, size(value) or value)


def _gpus(field: str, value: Data) -> Fields | None:
    found = gpu_count(value)
    return None if found is None else at(field, found)


def _suspended(field: str, value: Data) -> Fields | None:
    states = {True: "suspended", False: "active"}
    return at(field, states[value]) if isinstance(value, bool) else None


def _host(field: str, value: Data) -> Fields | None:
    return at(field, True) if value == "host" else None


def _user(field: str, value: Data) -> Fields | None:
    user, _, group = str(value).partition(":")
    if not user.isdecimal() or (group and not group.isdecimal()):
        return None
    ids: dict[str, Any] = {"runAsUser": int(user), "runAsGroup": int(group or 0)}
    return at(field, ids if group else {"runAsUser": int(user)})


def _fields(field: str, value: Data) -> Fields | None:
    """The fields of a part of a manifest that a spec does not have."""
    return {key: item for key, item in mapping(value).items() if key != "namespace"} or None


def _whole(form: Callable[[Data], Fields | None]) -> Form:
    """A form that decides itself which fields its value is."""
    return lambda field, value: form(value)


FORMS: Mapping[str, Form] = {
    "arguments": _whole(arguments),
    "container": _whole(container),
    "duration": _duration,
    "entrypoint": _whole(entrypoint),
    "fields": _fields,
    "flags": _whole(flags),
    "gpus": _gpus,
    "image": _whole(image),
    "host": _host,
    "mapping": _mapping,
    "names": _names,
    "number": _number,
    "resources": _whole(resources),
    "scalar": _scalar,
    "seconds": _seconds,
    "size": _size,
    "suspended": _suspended,
    "text": _text,
    "user": _user,
    "variables": _whole(variables),
    "volumes": _whole(volumes),
}
