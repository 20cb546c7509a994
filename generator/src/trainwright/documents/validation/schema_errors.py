"""Schema violations, worded for the person who wrote the data."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import jsonschema_rs

from trainwright.datatypes.data import Data
from trainwright.datatypes.job import JOB_FIELDS
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.suggestion import suggestion
from trainwright.documents.validation import kubernetes_fields, translation
from trainwright.documents.validation import other_forms as forms
from trainwright.documents.validation.failure import (
    CLOSING,
    Failure,
    SchemaInput,
    closest,
    failure_of,
)
from trainwright.documents.validation.violation import Violation, show
from trainwright.documents.yaml_syntax import missing_colon, missing_space
from trainwright.findings import credentials
from trainwright.objects.pods.flags import DASHES


def violations(
    errors: Iterable[jsonschema_rs.ValidationError], look: SchemaInput
) -> tuple[Violation, ...]:
    """Return every violation, in the order of the data."""
    failures = [failure_of(error, look) for error in errors]
    failures = [failure for failure in failures if not _is_included(failure, failures)]
    mistyped = {failure.path for failure in failures if failure.keyword == "type"}
    distinct = {
        violation
        for failure in failures
        if failure.keyword == "type" or failure.path not in mistyped
        for violation in _violations(failure)
    }
    distinct = {one for one in distinct if not _is_told(one, distinct)}
    if not distinct:  # a rule about length may hold for the stand-in of an empty key
        distinct = {Violation(Pointer(), "the file is refused", "Look for empty keys.")}
    return tuple(sorted(distinct, key=lambda v: (v.pointer, v.key, v.missing, v.message)))


def _is_included(failure: Failure, failures: list[Failure]) -> bool:
    """Whether another failure of the same mapping already explains what is missing."""
    beside = [other for other in failures if other.path == failure.path and other is not failure]
    if failure.keyword == "dependentRequired":
        return any(other.branches for other in beside)
    lacks = failure.branches and all(other.keyword == "required" for other in failure.branches)
    return bool(lacks) and any(other.keyword in CLOSING for other in beside)


def _is_told(lacking: Violation, all_of_them: Collection[Violation]) -> bool:
    """Whether what is missing is in the remedy of something else that is wrong with the mapping."""
    told = (
        other.remedy
        for other in all_of_them
        if not other.missing and lacking.pointer in (other.pointer, other.pointer.parent)
    )
    named = re.compile(rf'"{lacking.missing}"|\b{lacking.missing}:')
    return bool(lacking.missing) and any(
        named.search(remedy) or remedy == lacking.remedy for remedy in told
    )


def _violations(failure: Failure) -> Iterator[Violation]:
    for violation in _explained(failure, Pointer.of(*failure.path)):
        around = failure.instance if violation.key else _value(failure, violation)
        value = _value(failure, violation)
        if remedy := translation.of_bucket(violation.pointer, value, around):
            yield replace(violation, remedy=remedy)
        else:
            yield violation


def _explained(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    if failure.names:
        yield from _bad_key(failure, pointer)
    elif failure.branches:
        yield from _best_branch(failure, pointer)
    else:
        yield from _EXPLAIN.get(failure.keyword, _other)(failure, pointer)


def _value(failure: Failure, violation: Violation) -> Data:
    """Return the value that a violation is about."""
    below = violation.pointer.parts[len(failure.path) :]
    return lookup(failure.instance, Pointer.of(*below)) if below else failure.instance


def _name(pointer: Pointer) -> str:
    return pointer.dotted or "the file"


def _shown(pointer: Pointer, value: Data) -> str:
    """Return a value as written, or hidden if by its field's name it is a credential."""
    return credentials.HIDDEN if credentials.named(pointer.last, str(value)) else show(value)


def _kind(value: Data) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
    for python, name in names.items():
        if isinstance(value, python):
            return name
    return {dict: "a mapping", list: "a list", type(None): "null"}.get(type(value), "a value")


def _article(json_type: str) -> str:
    """Return a type of JSON with its article."""
    return {
        "object": "a mapping",
        "array": "a list",
        "string": "a string",
        "integer": "an integer",
        "number": "a number",
        "boolean": "true or false",
        "null": "null",
    }[json_type]


def _examples(schema: Mapping[str, Data], name: str) -> str:
    examples = schema.get("examples", [])
    plain = [show(e) for e in examples if not isinstance(e, dict | list)]
    if not plain and name and examples:
        from trainwright.documents import yamlio  # which words its errors by this

        plain = [f"`{name}: {yamlio.inline(examples[0])}`"]
    return f"For example {' or '.join(plain[:2])}." if plain else ""


def _described(schema: Mapping[str, Data], name: str = "") -> str:
    description = str(schema.get("description", "")).split(". ")[0].rstrip(".")
    parts = (f"{description}." if description else "", _examples(schema, name))
    return " ".join(part for part in parts if part)


def _type(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    """Yield the violation that a value has another type, with the value that may be meant."""
    wanted = failure.wanted
    types = [wanted] if isinstance(wanted, str) else list(wanted)
    types = [name for name in types if name != "null"] or types  # it is allowed, never what to do
    value = failure.instance
    expected = " or ".join(_article(t) for t in types)
    scalar = not isinstance(value, dict | list) and value is not None
    message = f"{_name(pointer)} must be {expected}, found {_kind(value)}"
    remedy = _described(failure.schema, "" if pointer.last.isdecimal() else pointer.last)
    if scalar:
        message += f": {_shown(pointer, value)}"
    if "string" in types and scalar:
        remedy = _quoted(pointer, failure)
    elif isinstance(value, str) and set(types) & {"integer", "number", "boolean"}:
        remedy = _unquoted(pointer, value, failure, types) or remedy
    if not scalar or not {"string", "integer", "number", "boolean"} & set(types):
        remedy = translation.of_field(pointer, value, failure.parent) or remedy
    if (types == ["string"] and not scalar) or ("integer" in types and isinstance(value, list)):
        remedy = _alone(pointer, value) or remedy
    meant = missing_space(value) if types == ["object"] and isinstance(value, str) else ""
    if meant and not remedy.startswith("Write `"):
        remedy = f"A colon needs a space behind it: `{meant}`."
    elif types == ["object"] and isinstance(value, str) and (meant := missing_colon(value)):
        remedy = remedy if remedy.startswith("Write `") else f"A colon is missing: `{meant}`."
    remedy = _of_another_meaning(pointer, value) or remedy.strip() or f"Write {expected}."
    yield Violation(pointer, message, remedy)


def _of_another_meaning(pointer: Pointer, value: Data) -> str:
    """Return what to write for a value that means something else than its field, or ""."""
    if pointer.last == "resumeFrom":
        return translation.RESUMED
    if pointer == "/nodes" and (meant := forms.elastic(value)):
        way, most = translation.shown(meant), meant["elastic"]["maxNodes"]
        return f"Write `nodes: {most}`, or where nodes may come and go, in place of it `{way}`."
    if pointer.last == "gpu" and type(value) is float:
        return _PART_OF_A_GPU
    if isinstance(value, str) and re.fullmatch("0[0-7]+", value):
        return f"Write 0o{value[1:]}, or {int(value, 8)}: without the o it is text."
    if pointer == "/run" and isinstance(value, str) and _COMMAND.search(value):
        return f"{translation.of_key('command', value, {})} Leave out run."
    return ""


def _alone(pointer: Pointer, value: Data) -> str:
    """Return how to write a text or number that is in a list of one, or a text that is in a mapping
    with a name, else "".
    """
    text = value
    if isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value):
        return f"Write one of them: `{pointer.last}: {value[0]}`."
    if isinstance(value, list) and len(value) == 1:
        text = value[0]
    elif isinstance(value, dict) and value.keys() == {"name"}:
        text = value["name"]
    elif isinstance(value, dict) and pointer.last == "image":
        text = forms.image_text(value)
    if not isinstance(text, str | int):
        return ""
    if pointer.last.isdecimal():
        return f"Write `{text}`, its name alone."
    return translation.written({pointer.last: text})


_PART_OF_A_GPU = (
    "A job has whole GPUs. Slices of one, as MIG makes them, are a pool of their own: "
    "`resource: nvidia.com/mig-1g.10gb`, of which a job requests a number."
)
_COMMAND = re.compile(r"\S\s+\S|\.(?:py|sh)$")
_TYPED = re.compile(r"([0-9]+) ?[xX*] ?[A-Za-z][\w-]*|[A-Za-z][\w-]*:([0-9]+)")  # 8xA100, A100:8
_IN_WORDS = {
    word: number
    for number, words in enumerate("none/never one two three four five six seven eight".split())
    for word in words.split("/")
}
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _unquoted(pointer: Pointer, value: str, failure: Failure, types: list[str]) -> str:
    """Return what to write for a string that means a number or boolean, or "" for any other."""
    value = value.rstrip(",; ")
    before, slashes, _ = value.partition("//")
    if slashes:
        number_alone = _unquoted(pointer, before.strip(), failure, types)
        return f"{number_alone} A comment begins with #." if number_alone else ""
    if re.fullmatch("-?(0|[1-9][0-9]*)", value):
        return translation.written({pointer.last: int(value)})
    in_words = _IN_WORDS.get(value.lower(), -1)
    if in_words >= failure.schema.get("minimum", 0) and "integer" in types:
        return translation.written({pointer.last: in_words})
    boolean = _BOOLEANS.get(value.lower()) if "boolean" in types else None
    if boolean is not None:
        return translation.written({pointer.last: boolean})
    is_counted = {"integer", "number"} & {*types}
    number = forms.number(value, pointer.last, failure.parent) if is_counted else None
    if pointer.last == "gpu" and (typed := _TYPED.fullmatch(value)):
        number = int(typed[1] or typed[2])
    fits = isinstance(number, int) or (number is not None and "number" in types)
    return translation.written({pointer.last: number}) if fits else ""


_NO_LIMIT = "Leave it out: a job without it has no limit."
_UNLIMITED = frozenset({"none", "never", "unlimited", "infinite", "inf", "no", "0", "-1"})
# Units of a number that is written without one, by the form that the field has.
_UNITS = {"duration": ("s", "m", "h"), "quantity": ("Mi", "Gi"), "": ()}
_FEW_MEBIBYTES = 1024  # below which GiB are meant
_SIZED = frozenset({"memory", "shm", "ephemeralStorage", "sizeLimit", "size"})


def _is_timed(name: str) -> bool:
    return name.endswith(("Duration", "Period")) or name in ("within", "every")


def _quoted(pointer: Pointer, failure: Failure) -> str:
    """Return how to write a number where a string is wanted: with its unit, if it has one."""
    value, name = failure.instance, pointer.last
    plain = "Quote it, so that it stays the text that is written here."
    if not name.isdecimal():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        plain = translation.written({name: text})
        is_amount = type(value) is int and (name in _SIZED or _is_timed(name))
        if not is_amount and not _stays_text(pointer, failure, text):
            return _described(failure.schema, name)
    # A value whose schema has a pattern is an amount, not a credential.
    if isinstance(value, bool) or not isinstance(value, int) or "pattern" not in failure.schema:
        return plain
    units = _UNITS["quantity" if name in _SIZED else "duration" if _is_timed(name) else ""]
    if not units:
        return plain
    if not value:
        return _NO_LIMIT if name == "maxDuration" else _described(failure.schema)
    if name in _SIZED and value < _FEW_MEBIBYTES:
        units = units[::-1]
    *ways, last = (f'`{name}: "{value}{unit}"`' for unit in units)
    return f"Write the unit: {', '.join(ways)} or {last}."


def _stays_text(pointer: Pointer, failure: Failure, text: str) -> bool:
    """Whether a text is what a field takes: no name begins with a digit, and no folder or name is
    called true.
    """
    holds = pointer.last == "value" or pointer.parent.last in translation.TEXTS
    named = isinstance(failure.instance, bool) and not holds
    return not named and _matches(failure.schema.get("pattern", ""), text)


def _unknown_keys(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    """Yield a violation for each key that a mapping cannot have, with the one that may be meant."""
    properties = failure.schema.get("properties", {})
    known = [key for key in properties if key not in failure.excluded]
    if pointer and (remedy := translation.of_mapping(pointer, failure.instance)):
        keys = ", ".join(key for key in failure.instance if key not in properties)
        yield Violation(pointer, f"{_name(pointer)} has unknown keys: {keys}", remedy)
        return
    for key in failure.instance:
        if key in properties or any(
            _matches(p, key) for p in failure.schema.get("patternProperties", {})
        ):
            continue
        where = f" in {_name(pointer)}" if pointer else ""
        value = failure.instance[key]
        if _OF_ROLES.issubset(known) and key in JOB_FIELDS:
            remedy = _OF_ROLES_ELSEWHERE.get(key) or (
                f"Remove it: {key} is of the whole job, and is written at the top."
            )
        elif _OF_JOBS.issubset(known) or _OF_ROLES.issubset(known):
            remedy = _misspelt(key, known) or translation.of_key(key, value, failure.instance)
        else:
            remedy = translation.of_part(pointer, key, value, failure.instance)
        remedy = remedy or _meant(pointer / key, value, known)
        if failure.instance[key] is None and (meant := missing_space(key)):
            remedy = f"A colon needs a space behind it: `{meant}`."
        yield Violation(pointer / key, f'unknown key "{key}"{where}', remedy, key=key)


_OF_JOBS = {"entrypoint", "podPatch"}  # keys that identify the schema of a job
_OF_ROLES = {"entrypoint", "ready"}  # keys that identify that of a role
# Fields of a job that a role has under another name, or not at all.
_OF_ROLES_ELSEWHERE = {
    "readinessProbe": "Write `ready`, of which the probes of a role are made.",
    "startupProbe": "Write `ready.within`: how long the first answer may take.",
    "podPatch": "Remove it: a patch is of the pods that train alone.",
}
# Other tools' names for keys of variables, containers, pools and environments.
_OTHER_NAMES = {
    "cmd": "command",
    "cpus": "cpu",
    "dir": "path",
    "ephemeral-storage": "ephemeralStorage",
    "fieldRef": "field",
    "gpus": "gpusPerNode",
    "img": "image",
    "folder": "path",
    "labels": "nodeSelector",
    "max": "maxNodes",
    "mem": "memory",
    "min": "minNodes",
    "nvidia": "gpu",
    "path": "mountPath",
    "pvc": "claim",
    "claimName": "claim",
    "price": "pricePerGpuHour",
    "repo": "repository",
    "resourceFieldRef": "resource",
    "ro": "readOnly",
    "secret": "secrets, beside env",
    "secretKeyRef": "secrets, beside env",
    "securityContext": "security",
    "version": "tag",
    "volumeMounts": "mounts",
}


_SIMILAR = 0.76  # and from here on it can be a slip, if the value is one of that key's
_ALIKE = 0.85  # by difflib


def _misspelt(key: str, known: list[str]) -> str:
    """Return a hint for a key that differs in case or separators: maxduration, max_duration."""
    plain = key.replace("_", "").replace("-", "").lower()
    meant = next((name for name in known if name.lower() == plain), "")
    return f'Did you mean "{meant}"?' if meant else ""


def _meant(pointer: Pointer, value: Data, known: list[str]) -> str:
    """Return what to write in place of an unknown key."""
    key = pointer.last
    of_job = _OF_JOBS.issubset(known)
    if place := kubernetes_fields.of_job(key) if of_job else None:
        return place.remedy
    other = _OTHER_NAMES.get(key, "")
    if other in known:
        return f'Did you mean "{other}"?'
    if near := _misspelt(key, known):
        return near
    near = _nearest(key, known, _SIMILAR)
    if near and (_nearest(key, [near], _ALIKE) or translation.suits(pointer.parent / near, value)):
        return f'Did you mean "{near}"?'
    if {*re.findall(r"\w+", other)} & {*known} or (other and "configMap" in known):
        return f"Write {other}."
    option = translation.as_flag(key, value) if of_job else ""
    keys = f"{known_keys(key, known, pointer.parent)} {option}".strip()
    return translation.of_elsewhere(pointer, value) or keys


_FEW_KEYS = 8  # which one line names


def known_keys(key: str, known: Iterable[str], pointer: Pointer, kind: str = "") -> str:
    """Return the keys of a mapping; if many, the nearest ones and the command that lists all."""
    from difflib import get_close_matches  # only mistakes need it

    names = sorted(known)
    if len(names) <= _FEW_KEYS:
        return f"Known keys: {', '.join(names)}."
    of_job = bool(pointer) and pointer.parts[0] in JOB_FIELDS
    if not of_job and _OF_JOBS.issubset(names):  # defaults, by the whole path of an environment
        pointer, of_job = Pointer(), True
    kind = kind or ("job" if of_job else "environment")
    near = get_close_matches(key, names, n=3, cutoff=0.6)
    which = f"The nearest known {'key is' if len(near) == 1 else 'keys are'} {', '.join(near)}; "
    at = f" {pointer.dotted}" if pointer else ""
    return f"{which if near else ''}`trainwright explain {kind}{at}` lists all keys."


def _nearest(word: str, known: list[str], cutoff: float) -> str:
    from difflib import get_close_matches  # only mistakes need it

    small = {name.lower(): name for name in reversed(known)}
    return small.get(next(iter(get_close_matches(word.lower(), small, n=1, cutoff=cutoff)), ""), "")


def _matches(pattern: str, key: str) -> bool:
    return re.search(pattern, key) is not None


def _bad_key(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    key = str(failure.instance)
    remedy = _described(failure.schema) or f"Names must match {failure.wanted}."
    if pointer.last == "flags" and (name := key.lstrip(f"-{DASHES}")) != key:
        remedy = f'The dashes are added where it is passed. Did you mean "{name}"?'
    elif failure.keyword == "pattern" and (meant := _valid_key(key, failure.wanted)):
        remedy = f'Did you mean "{meant}"? {remedy}'
    message = f'"{key}" is not a valid name in {_name(pointer)}'
    yield Violation(pointer / key, message, remedy, key=key)


def _valid_key(key: str, pattern: str) -> str:
    """Return a name that a mapping can have, in the letters of one that it cannot, or ""."""
    ways = (key.strip("-"), key.lower().replace("_", "-"), re.sub("[^A-Za-z0-9]", "_", key))
    return next((way for way in ways if _matches(pattern, way)), "")


def _required(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    for key in failure.wanted:
        if key in failure.instance:
            continue
        field = failure.schema.get("properties", {}).get(key, {})
        name = (pointer / key).dotted
        remedy = f"Add {name}. {_described(field)}".strip()
        yield Violation(pointer, f"{name} is missing", remedy, missing=key)


# Other tools' words for the values of an enum.
_OTHER_VALUES = {
    **dict.fromkeys(("torch.distributed.run", "torch.distributed.launch"), "torchrun"),
    **dict.fromkeys(("paused", "stopped"), "suspended"),
    **dict.fromkeys(("running", "started", "enabled"), "active"),
}
_NOT_CHOSEN = ("", None, "adopted")  # the target that `adopt` writes is no choice of people


def _enum(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    """Yield the violation that a value is none of those allowed, with the one that may be meant."""
    allowed = [str(value) for value in failure.wanted if value not in _NOT_CHOSEN]
    value = failure.instance
    message = f"{_name(pointer)} cannot be {show(value)}"
    remedy = f"It must be one of: {', '.join(allowed)}."
    one = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(value, list | dict) and (one in allowed or _named(one) in allowed):
        remedy = _alone(pointer, value) or remedy
    elif pointer.last == "launcher" and (words := forms.words(str(value)))[1:]:
        if module := next((word for word in words if word in _OTHER_VALUES), ""):
            remedy = translation.written({"launcher": _OTHER_VALUES[module]})
        elif words[0] in allowed:
            remedy = f"Write `launcher: {words[0]}`, and its options under launcherOptions."
    elif near := _one_of(str(value), allowed):
        remedy = f'Did you mean "{near}"? {remedy}'
    yield Violation(pointer, message, remedy)


def _named(value: Data) -> Data:
    return value.get("name") if isinstance(value, dict) else None


def _one_of(value: str, allowed: list[str]) -> str:
    """Return the most similar allowed value, or "": of versions only the same minor."""
    if version := _VERSION.fullmatch(value):
        return version[1] if version[1] in allowed else ""
    other = _OTHER_VALUES.get(value, "")
    if other in allowed:
        return other
    small = {name.lower(): name for name in allowed}
    if value.lower() in small:
        return small[value.lower()]
    return small.get(suggestion(value.lower(), small), "")


_VERSION = re.compile(r"v?(\d+\.\d+)(?:[.+-].*)?")


def _pattern(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    """Yield the violation that a text is not in the form of its field."""
    described = _described(failure.schema)
    if "integer" in failure.schema.get("type", "") and str(failure.instance).isdigit():
        message = f"{_name(pointer)} is the string {_shown(pointer, failure.instance)}"
        remedy = translation.written({pointer.last: int(failure.instance)})
        yield Violation(pointer, message, remedy)
        return
    described = _rewritten(pointer, failure.instance, failure.wanted) or described
    what = str(failure.schema.get("title", "")).lower() or f"text matching {failure.wanted}"
    shown = _shown(pointer, failure.instance)
    message = f"{_name(pointer)} is {shown}, which is not a valid {what}"
    yield Violation(pointer, message, described or f"It must match {failure.wanted}.")


_HYDRA = ("hydra", "Hydra", "omegaconf")
_FLAG_STYLES = "Write one of --k=v, --k v, -k=v, -k v, and k=v as Hydra has it."


def _rewritten(pointer: Pointer, value: Data, pattern: str) -> str:
    """Return how to write a value in the form that its field requires: 64Gi for 64GB."""
    name = pointer.last
    if pointer.parts[-2:] == ("image", "repository"):
        return translation.written(translation.first_valid([forms.image(value)]))
    if name in ("script", "module"):
        return translation.written(forms.program(str(value), is_module=name == "module"))
    if told := _told_of(name, str(value), pattern):
        return told
    text = _word(name, value)
    return translation.written({name: text}) if text and _matches(pattern, text) else ""


def _told_of(name: str, value: str, pattern: str) -> str:
    """Return what to do about a value that is not simply another way to write one, or ""."""
    if name == "flagStyle":
        return translation.written({name: "k=v"}) if value in _HYDRA else _FLAG_STYLES
    if name == "maxDuration" and value.lower() in _UNLIMITED:
        return _NO_LIMIT
    if _is_timed(name) and (clock := re.fullmatch("([0-9]+):00", value)):
        return f'Write the unit: `{name}: "{clock[1]}h"` or `{name}: "{clock[1]}m"`.'
    path, colon, mode = value.rpartition(":")
    if name == "mountPath" and colon and mode in ("ro", "rw") and _matches(pattern, path):
        return translation.written({name: path, **({"readOnly": True} if mode == "ro" else {})})
    return ""


def _word(name: str, value: Data) -> str:
    """Return the text that a field has for the one of another tool, or ""."""
    if name in _SIZED:
        return forms.size(value, decimal=True)
    if _is_timed(name):
        return forms.duration(value)
    rewrite = _WORDS.get(name)
    return rewrite(value) if rewrite and isinstance(value, str) else ""


_LONGEST = 40  # characters of a name for which all targets have room


def _as_name(value: str) -> str:
    lower = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-")
    return lower if len(value) < _LONGEST else ""


def _below_mount(value: str) -> str:
    return value.removeprefix("./")


def _from_root(value: str) -> str:
    return "" if value[:1] in ("~", "$") else re.sub("/+", "/", f"/{_below_mount(value)}")


# How a text may be written that is not one of its field, by the field's name; whether it is one
# then, the pattern of the field decides.
_WORDS: Mapping[str, Callable[[str], str]] = {
    "cpu": forms.cores,
    "digest": "sha256:{}".format,
    "mountPath": _from_root,
    "name": _as_name,
    "path": _below_mount,
    "pool": lambda value: value.lower().replace("_", "-"),
    "procsPerNode": lambda value: "auto" if value in ("gpu", "gpus", "cpu", "all") else "",
    "resource": lambda value: "nvidia.com/gpu" if value == "gpu" else "",
    "resumeFrom": _below_mount,
    "subPath": _below_mount,
    "tag": lambda value: value.strip(" :"),
}


def _limit(words: str) -> Callable[[Failure, Pointer], Iterator[Violation]]:
    def explain(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
        shown = failure.instance if isinstance(failure.instance, int | float) else ""
        size = f" is {shown}, it" if shown != "" else ""
        message = f"{_name(pointer)}{size} must {words} {failure.wanted}"
        described = _described(failure.schema, pointer.last)
        yield Violation(pointer, message, described or "Change the value.")

    return explain


def _const(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    wanted = show(failure.wanted)
    message = f"{_name(pointer)} is {show(failure.instance)}, expected {wanted}"
    remedy = translation.written({pointer.last: failure.wanted}) or f"Write {wanted}."
    yield Violation(pointer, message, remedy)


def _other(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    message = f"{_name(pointer)}: {credentials.redact(failure.message)[:200]}"
    yield Violation(pointer, message, _described(failure.schema) or "Correct the value.")


def _best_branch(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    """Yield what keeps the value from the alternative that it comes closest to.

    Alternatives that differ only in the key that must be there are named together instead.
    """
    if all(branch.keyword == "required" for branch in failure.branches):
        ways = [list(map(str, branch.wanted)) for branch in failure.branches]
        yield _no_alternative(failure, pointer, ways)
        return
    best = closest(failure)
    yield from _EXPLAIN.get(best.keyword, _other)(best, Pointer.of(*best.path))


def _no_alternative(failure: Failure, pointer: Pointer, ways: list[list[str]]) -> Violation:
    """Return the violation of a value with none of several sets of keys, or part of one."""
    mapping = failure.instance if isinstance(failure.instance, dict) else {}
    begun = [way for way in ways if mapping.keys() & set(way)]
    if len(begun) == 1:
        has = [key for key in begun[0] if key in mapping]
        lacks = [key for key in begun[0] if key not in mapping]
        message = f"{_name(pointer)} has {' and '.join(has)} without {' and '.join(lacks)}"
        return Violation(pointer, message, f"Add {' and '.join(lacks)}.")
    named = list(dict.fromkeys(" with ".join(way) for way in ways))
    message = f"{_name(pointer)} needs one of: {listed(named, _MOST_KEYS)}"
    return Violation(pointer, message, _described(failure.schema) or f"Write {named[0]}.")


_MOST_KEYS = 8  # that one line names


def _one_too_many(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    """Yield violations of `oneOf` by several matches, and of `maxProperties`: exclusive keys."""
    branches = failure.wanted if isinstance(failure.wanted, list) else []
    if types := _types(branches):  # a quantity is a string or a number; null would be both
        yield from _type(replace(failure, wanted=types), pointer)
        return
    exclusive = {key for branch in branches for key in branch.get("required", ())}
    present = failure.instance if isinstance(failure.instance, dict) else {}
    if isinstance(failure.wanted, int) and failure.wanted > 1:
        message = f"{_name(pointer)} has {len(present)} keys, at most {failure.wanted} are possible"
        yield Violation(pointer, message, _described(failure.schema))
        return
    keys = ", ".join(key for key in sorted(present) if not exclusive or key in exclusive)
    if not keys:
        yield from _other(failure, pointer)
        return
    message = f"{_name(pointer)} has keys that exclude each other: {keys}"
    remedy = "Keep one; write null to remove an inherited one. " + _described(failure.schema)
    yield Violation(pointer, message, remedy.strip())


def _dependent(failure: Failure, pointer: Pointer) -> Iterator[Violation]:
    """Yield a violation for each key that has no meaning without another, missing one."""
    for key, needed in failure.wanted.items():
        missing = [name for name in needed if name not in failure.instance]
        if key in failure.instance and missing:
            message = f"{(pointer / key).dotted} means nothing without {' and '.join(missing)}"
            remedy = _described(failure.schema) or f"Add {' and '.join(missing)}, or remove {key}."
            yield Violation(pointer / key, message, remedy, key=key)


def _types(branches: Iterable[Data]) -> list[str]:
    """Return the types of alternatives if each has nothing but a type, else an empty list."""
    types: list[str] = []
    for branch in branches:
        if not isinstance(branch, Mapping) or set(branch) != {"type"}:
            return []
        types += [branch["type"]] if isinstance(branch["type"], str) else branch["type"]
    return list(dict.fromkeys(types))


_EXPLAIN: dict[str, Callable[[Failure, Pointer], Iterator[Violation]]] = {
    "type": _type,
    "additionalProperties": _unknown_keys,
    "unevaluatedProperties": _unknown_keys,
    "required": _required,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "minimum": _limit("be at least"),
    "maximum": _limit("be at most"),
    "exclusiveMinimum": _limit("be more than"),
    "minLength": _limit("have a length of at least"),
    "maxLength": _limit("have a length of at most"),
    "minItems": _limit("have at least this many items:"),
    "maxItems": _limit("have at most this many items:"),
    "dependentRequired": _dependent,
    "minProperties": _limit("have at least this many keys:"),
    "oneOf": _one_too_many,
    "maxProperties": _one_too_many,
    "not": _one_too_many,
}
