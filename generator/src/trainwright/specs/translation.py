"""How a job spec has what people write as Kubernetes, Docker, Slurm or a shell has it.

A remedy that shows a field's form leaves the rest to the reader; these hold the value that was
written. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from trainwright.datatypes.model import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.findings import credentials
from trainwright.pods.image_reference import split

Translation = Callable[[Data], Mapping[str, Data] | None]

_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
_MEASURED = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]")


def of_field(pointer: Pointer, value: Data) -> str:
    """Return what to write for a field whose value has the form that it has elsewhere, or ""."""
    *above, field = pointer.parts
    of_job = not above or above[-1] == "defaults"
    return _written(_FIELDS.get(field), value) if of_job or field == "env" else ""


def of_key(key: str, value: Data) -> str:
    """Return what to write for a key that jobs have by another name, or ""."""
    if key.removeprefix("--") not in ("", key):
        return _shown({"flags": {key[2:]: value}})
    return _written(_KEYS.get(key.lower().replace("-", "").replace("_", "")), value)


def of_resource(pointer: Pointer, key: str, value: Data) -> str:
    """Return what to write for a device among the requests or limits of a container, or ""."""
    if "/" not in key or not {"resources", "requests", "limits"} & {*pointer.parts[-1:]}:
        return ""
    fields = {"gpu": value} if key in _GPU else {"extended": {key: value}}
    return _shown({"resources": fields})


_GPU = frozenset({"nvidia.com/gpu", "amd.com/gpu"})


def _written(translation: Translation | None, value: Data) -> str:
    found = translation(value) if translation else None
    return _shown(found) if found else ""


def _shown(fields: Mapping[str, Data]) -> str:
    from trainwright.specs import yamlio  # which reads specs, and so their errors

    lines = (f"{key}: {yamlio.inline(_hidden(value))}" for key, value in fields.items())
    return credentials.redact("\n".join(lines))


def _hidden(value: Data) -> Data:
    """A value without what its names say are credentials."""
    if isinstance(value, Mapping):
        return {
            key: credentials.HIDDEN if credentials.named(key, str(item)) else _hidden(item)
            for key, item in value.items()
        }
    return value


# --- fields in the form of another tool ----------------------------------------------------------


def _image(value: Data) -> Mapping[str, Data] | None:
    if not isinstance(value, str) or not value or set(value) & set(" \t\n"):
        return None
    repository, tag, digest = split(value)
    parts = {"repository": repository, "tag": tag, "digest": digest}
    return {"image": {key: part for key, part in parts.items() if part}}


def _variables(value: Data) -> Mapping[str, Data] | None:
    """A list of variables, as a container has it, by their names."""
    env, secrets = dict[str, Data](), dict[str, Data]()
    for entry in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
        name, _, text = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        if isinstance(entry, Mapping):
            name, text = str(entry.get("name", "")), str(entry.get("value", ""))
            source = entry.get("valueFrom")
            secret = source.get("secretKeyRef") if isinstance(source, Mapping) else None
            if isinstance(secret, Mapping):
                secrets[name] = {key: secret.get(key, "") for key in ("name", "key")}
                continue
        env[name] = text
    found = {"env": env, "secrets": secrets}
    return {key: named for key, named in found.items() if named and "" not in named} or None


def _volumes(value: Data) -> Mapping[str, Data] | None:
    """A list of volumes, as a pod has it, by their names."""
    found = dict[str, Data]()
    for entry in value if isinstance(value, list) else ():
        if not isinstance(entry, Mapping) or not entry.get("name"):
            return None
        name = str(entry["name"])
        source = {key: item for key, item in entry.items() if key != "name"}
        claim = source.get("persistentVolumeClaim")
        if isinstance(claim, Mapping):
            source = {"claim": claim.get("claimName", "")}
        found[name] = {**source, "mountPath": f"/{name}"}
    return {"volumes": found} if found else None


def _flags(value: Data) -> Mapping[str, Data] | None:
    """Words of a command line."""
    words = _words(value)
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


def _words(value: Data) -> list[Data]:
    """A command line as a list; nothing of what is none, as with a quote that is not closed."""
    if not isinstance(value, str):
        return value if isinstance(value, list) else []
    try:
        return list(shlex.split(value))
    except ValueError:
        return []


def _entrypoint(value: Data) -> Mapping[str, Data] | None:
    words = _words(value)
    if not words or any(isinstance(word, dict | list) for word in words):
        return None
    argv = [str(word) for word in words]
    if len(argv) == 1 and argv[0].endswith(".py"):
        return {"entrypoint": {"script": argv[0]}}
    if len(argv) > 1 and _PYTHON.fullmatch(argv[0]) and argv[1].endswith(".py"):
        arguments: Mapping[str, Data] = {"args": argv[2:]} if argv[2:] else {}
        return {"entrypoint": {"script": argv[1], **arguments}}
    return {"entrypoint": {"argv": argv}}


_FIELDS: Mapping[str, Translation] = {
    "image": _image,
    "env": _variables,
    "volumes": _volumes,
    "flags": _flags,
    "entrypoint": _entrypoint,
}

# --- keys that jobs have by another name ---------------------------------------------------------


def _as(*path: str) -> Translation:
    """The value as it is, at a path of a spec."""

    def at(value: Data) -> Mapping[str, Data] | None:
        if isinstance(value, dict | list) or value is None:
            return None
        for key in reversed(path[1:]):
            value = {key: value}
        return {path[0]: value}

    return at


def _duration(value: Data) -> Mapping[str, Data] | None:
    if isinstance(value, str) and _MEASURED.fullmatch(value):
        return {"maxDuration": value}
    clock = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if clock is None:
        return None
    days, hours, minutes, _ = (int(part or 0) for part in clock.groups())
    hours += 24 * days
    return {"maxDuration": f"{hours * 60 + minutes}m" if minutes else f"{hours}h"}


def _text(*path: str) -> Translation:
    return lambda value: _as(*path)(None if value is None else str(value))


_NODES = _as("nodes")
_RETRIES = _as("retries")
_GPUS = _as("resources", "gpu")
_KEYS: Mapping[str, Translation] = {
    **dict.fromkeys(
        ("replicas", "workers", "numworkers", "numnodes", "nnodes", "parallelism"), _NODES
    ),
    **dict.fromkeys(("backofflimit", "maxretries", "maxrestarts", "requeue"), _RETRIES),
    **dict.fromkeys(("gpus", "gpu", "numgpus", "gpuspernode"), _GPUS),
    **dict.fromkeys(
        ("timeout", "time", "walltime", "timelimit", "activedeadlineseconds"), _duration
    ),
    **dict.fromkeys(("command", "cmd", "run"), _entrypoint),
    **dict.fromkeys(("script", "program"), _text("entrypoint", "script")),
    **dict.fromkeys(("nprocpernode", "numprocpernode", "ntaskspernode"), _as("procsPerNode")),
    "module": _text("entrypoint", "module"),
    "cpu": _text("resources", "cpu"),
    "cpus": _text("resources", "cpu"),
    "memory": _text("resources", "memory"),
    "mem": _text("resources", "memory"),
    "partition": _text("pool"),
    "environment": _variables,
}
