"""Values in the forms of Kubernetes, Docker, Slurm or a shell, converted to fields of a job spec.

A form returns the fields by their names, or None for a value that does not have it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from trainwright.datatypes.data import Data, digits, mapping, mappings
from trainwright.datatypes.durations import SECONDS
from trainwright.datatypes.pointer import Pointer, with_value
from trainwright.objects.pods import command
from trainwright.objects.pods.image_reference import in_spec, joined
from trainwright.objects.pods.launchers import LAUNCHERS, SWITCH
from trainwright.objects.pods.launching import SHELLS

Fields = Mapping[str, Data]
Form = Callable[[str, Data], Fields | None]

_SIZE = re.compile(
    r"([0-9]+(?:[.,][0-9]+)?) ?(?:([kKmMgGtT])(?:(i?)[bB]?|(?:ilo|ega|iga|era)[bB]ytes?)|(\+))"
)
_CORES = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\+| ?v?(?:cores?|cpus?|CPUs?))")
_UNIT = re.compile(
    r"[$€£]? ?([0-9]+(?:\.[0-9]+)?) ?(?:(GPUs?|gpus?)|(nodes?)|h|hours?|[$€£]|USD|EUR)?"
)
_TOLERATION = re.compile(r"([\w./-]+)(?:=([\w.-]*))?(?::(NoSchedule|PreferNoSchedule|NoExecute))?")
_RANGE = re.compile(r"(\d+) ?[:-] ?(\d+)")
_CLOCK = re.compile(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?")
_AMOUNT = re.compile(r"(\d+) ?(s|m|h|d|w)(?:ec|in|r|econd|inute|our|ay|k|eek)?s?")
_ASSIGNED = re.compile(r"[A-Za-z_][\w.-]*=")
_OPERATORS = frozenset({"&&", "||", ";", "|"})  # of a shell
# Options of launchers that count nodes, and the processes of one.
_NODES = ("nnodes", "num-machines", "num-nodes")
_PROCESSES = ("nproc-per-node", "num-gpus", "num-accelerators")
_DECIMAL = re.compile(r"(\d+)\.(\d+) ?([mhd])")
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_BIND = re.compile(r"([a-z0-9-]+):(/[^:]+)(:ro)?")
_FOLDER = re.compile(
    r"(?:([a-z0-9-]+)|(\.{0,2}/[^:]*|~[^:]*|\.\.?)):(/[^:]*[^:/])/?(:ro|:rw)?(?:,\w+)?"
)
_SCHEME = re.compile(r"\A[a-z]+://")  # of an image's address
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where a container has it, and no file of ours


def at(path: str, value: Data) -> Fields:
    """Return a value at a dotted path, as nested mappings."""
    fields: Fields = with_value(None, Pointer.of(*path.split(".")), value)
    return fields


# --- amounts -------------------------------------------------------------------------------------


def size(value: Data, *, decimal: bool = False) -> str:
    """Return "64Gi" for "64GB", "64g" or "64 Gi": units of Docker and Slurm are binary; or "".

    Those of a job spec are Kubernetes' own, where GB is `decimal`: "64G".
    """
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return ""
    amount, unit, has_i, or_more = match.groups()  # SkyPilot's 64+ are GB
    binary = has_i or or_more or not decimal
    prefix = "G" if or_more else unit.upper()
    unit = f"{prefix}i" if binary else prefix.replace("K", "k")
    return f"{amount.replace(',', '.')}{unit}"


def cores(value: Data) -> str:
    """Return "4" for "4 cores" or "4+", or ""."""
    match = _CORES.fullmatch(value) if isinstance(value, str) else None
    return match[1] if match else ""


def number(value: str, field: str, beside: Fields) -> int | float | None:
    """Return the number of an amount whose unit the field implies: "$2.50", "16 GPUs"; or None.

    Nodes of a pool are counted by their GPUs where the fields beside it have how many one has.
    """
    match = _UNIT.fullmatch(value.strip())
    if match is None:
        return None
    amount, gpus, nodes = match.groups()
    if nodes and field == "capacity" and amount.isdecimal():
        per_node = beside.get("gpusPerNode")
        return int(amount) * per_node if type(per_node) is int else None
    counts_nodes = "node" in field.lower() and "gpu" not in field.lower()
    if (nodes and not counts_nodes) or (gpus and counts_nodes):
        return None
    return float(amount) if "." in amount else int(amount)


def clock(text: str) -> int | None:
    """Return the seconds of a Slurm time limit, or None: minutes, minutes:seconds,
    hours:minutes:seconds, days-hours and so on.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return None
    days, first, second, third = match.groups()
    if days is not None:
        hours, minutes, seconds = int(first), int(second or 0), int(third or 0)
    elif third is not None:
        hours, minutes, seconds = int(first), int(second), int(third)
    else:
        hours, minutes, seconds = 0, int(first), int(second or 0)
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds or None


def duration(value: Data) -> str:
    """Return "36h" for "1-12:00:00", "36 hours" or "36h"; "" for what is not a time, or zero."""
    if not isinstance(value, str):
        return ""
    if match := _AMOUNT.fullmatch(value.strip().lower()):
        amount = f"{int(match[1]) * 7}d" if match[2] == "w" else f"{match[1]}{match[2]}"
        return amount if int(match[1]) else ""
    parts = re.split(r"(?:,| and)?(?<! ) +(?=[0-9])", value.strip())
    amounts = [duration(part) for part in parts] if len(parts) > 1 else []
    if amounts and all(re.fullmatch("[0-9]+[dhms]", amount) for amount in amounts):
        return "".join(amounts)
    seconds: int | None = _decimal(value) or _iso(value)
    seconds = seconds or (clock(value) if ":" in value or "-" in value else None)
    if not seconds:
        return ""
    unit = next(unit for unit in "hms" if seconds % SECONDS[unit] == 0)
    return f"{seconds // SECONDS[unit]}{unit}"


def _decimal(text: str) -> int:
    """Return the seconds of "1.5h", or 0."""
    match = _DECIMAL.fullmatch(text.strip().lower())
    return round(float(f"{match[1]}.{match[2]}") * SECONDS[match[3]]) if match else 0


def _iso(text: str) -> int:
    """Return the seconds of "PT24H", a duration of ISO 8601, or 0."""
    match = _ISO.fullmatch(text.strip().upper())
    units = zip(match.groups(), "dhms", strict=True) if match else ()
    return sum(int(count or 0) * SECONDS[unit] for count, unit in units)


def gpu_count(value: Data) -> int | None:
    """Return the number of GPUs in Slurm's `4`, "4", `gpu:4` or `gpu:a100:4`, or None."""
    for resource in str(value).split(","):
        name, *rest = resource.partition("(")[0].split(":")
        count = digits(name)
        if count is not None and not rest:
            return count
        if name == "gpu":
            own = digits(rest[-1]) if rest else None
            return 1 if own is None else own
    return None


# --- what a container has ------------------------------------------------------------------------


def image(value: Data) -> Fields | None:
    """Return an image by its parts; a repository has no scheme, and lower-case letters."""
    text = _SCHEME.sub("", value.strip()) if isinstance(value, str) else ""
    if not text or set(text) & set(" \t\n"):
        return None
    parts = in_spec(text)
    return {"image": {**parts, "repository": parts["repository"].lower().strip("/")}}


def image_text(value: Mapping[str, Data]) -> str | None:
    """Return the text of an image that is written by its parts; None for another mapping."""
    parts = {"repository", "tag", "digest"}
    texts = {key: part for key, part in value.items() if key in parts and isinstance(part, str)}
    return joined(**texts) if texts.keys() == value.keys() and "repository" in texts else None


def variables(value: Data) -> Fields | None:
    """Return variables of a container, or of Docker, by their names."""
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
    fields = {"env": env, "secrets": secrets}
    return {key: named for key, named in fields.items() if named and "" not in named} or None


def variable(name: str, entry: Fields) -> Fields | None:
    """Convert a variable that is a mapping: as in Kubernetes, or a Secret's name and key."""
    secret = entry.get("secret", entry.get("secretName", entry.get("secretRef")))
    key = entry.get("key", entry.get("secretKey"))
    if isinstance(secret, Mapping):
        return variables({name: {"valueFrom": {"secretKeyRef": {"key": key, **secret}}}})
    if secret is not None:
        selector = {"name": secret, "key": key}
        return variables({name: {"valueFrom": {"secretKeyRef": selector}}}) if key else None
    source = entry.get("valueFrom", {k: v for k, v in entry.items() if k.endswith("Ref")})
    if source:
        return variables({name: {"valueFrom": source}})
    return variables({name: entry["value"]}) if "value" in entry else None


def _pairs(value: Data) -> Iterable[tuple[str, Data]]:
    """Yield names and values of a mapping, a list of either, or a text of assignments."""
    if isinstance(value, str):
        value = [word for text in words(value) for word in text.split(",") if "=" in word]
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
    """Return the source that the cluster takes a variable from."""
    if field := mapping(source.get("fieldRef")):
        return {"field": field.get("fieldPath", "")}
    if resource := mapping(source.get("resourceFieldRef")):
        return {key: resource[key] for key in ("resource", "divisor") if key in resource}
    key = mapping(source.get("configMapKeyRef"))
    return {"configMap": key.get("name", ""), "key": key.get("key", "")}


def volumes(value: Data) -> Fields | None:
    """Return volumes of a pod, or of Docker, by their names."""
    by_name = dict[str, Data]()
    for entry in value if isinstance(value, list) else ():
        bind = _BIND.fullmatch(_short(entry))
        name = bind[1] if bind else mapping(entry).get("name")
        if not name:
            return None
        if bind:
            read_only: Fields = {"readOnly": True} if bind[3] else {}
            by_name[name] = {"claim": name, "mountPath": bind[2], **read_only}
        else:
            by_name[str(name)] = {**_volume(entry), "mountPath": f"/{name}"}
    return {"volumes": by_name} if by_name else None


def folders(value: Data) -> tuple[Fields, str]:
    """Return volumes for folders of a machine that Docker mounts, each with a claim yet to be
    named, and the first of the folders by its path; both empty for anything else.
    """
    by_name, paths = dict[str, Data](), list[str]()
    for entry in value if isinstance(value, list) else ():
        match = _FOLDER.fullmatch(_short(entry))
        if match is None:
            return {}, ""
        claim, path, target, options = match.groups()
        name = re.sub(r"[^a-z0-9]+", "-", target.rpartition("/")[2].lower()).strip("-") or "data"
        read_only: Fields = {"readOnly": True} if options == ":ro" else {}
        by_name[name] = {"claim": claim or "…", "mountPath": target, **read_only}
        paths.append(path)
    folder = next(filter(None, paths), "")
    return ({"volumes": by_name}, folder) if folder and len(by_name) == len(paths) else ({}, "")


def _short(entry: Data) -> str:
    """Return a mount of Compose as `name:/path`, from either of its two forms."""
    if isinstance(entry, str):
        return entry
    source, target = (mapping(entry).get(key, "") for key in ("source", "target"))
    return f"{source}:{target}{':ro' if mapping(entry).get('read_only') else ''}"


CLAIM = frozenset("size storage storageClass storageClassName accessModes accessMode".split())


def made_claim(entry: Fields) -> Fields:
    """Convert a volume that has the properties of a claim to create beside its mount."""
    size, kind = (
        next((entry[key] for key in keys if key in entry), None)
        for keys in (("size", "storage"), ("storageClass", "storageClassName"))
    )
    create = {"size": size, "storageClass": kind}
    rest = {key: item for key, item in entry.items() if key not in CLAIM}
    return {"create": {key: item for key, item in create.items() if item}, **rest}


def toleration(value: Data) -> Fields | None:
    """Return the toleration for a taint of `kubectl taint`: key, key:effect or key=value:effect."""
    match = _TOLERATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    key, text, effect = match.groups()
    fields = {
        "key": key,
        "operator": "Equal" if text else "Exists",
        "value": text,
        "effect": effect,
    }
    return {name: item for name, item in fields.items() if item}


def tolerations(value: Data) -> Fields | None:
    """Return the tolerations for taints by their keys: `{sku: gpu}`, `{sku: "gpu:NoSchedule"}`."""
    texts = [f"{key}={text}" for key, text in mapping(value).items() if isinstance(text, str)]
    found = [toleration(value)] if isinstance(value, str) else list(map(toleration, texts))
    is_taint = isinstance(value, str) or not mapping(value).keys() & _OF_TOLERATIONS
    return {"tolerations": found} if found and all(found) and is_taint else None


_OF_TOLERATIONS = frozenset({"key", "operator", "value", "effect", "tolerationSeconds"})


def host_aliases(value: Data) -> Fields | None:
    """Convert addresses by host name, or Compose's list of strings that have both."""
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        pairs = [re.split("[:=]", entry, maxsplit=1) for entry in value]
        value = dict(pairs) if all(len(pair) > 1 for pair in pairs) else None
    if not isinstance(value, Mapping) or not all(isinstance(ip, str) for ip in value.values()):
        return None
    return {"hostAliases": [{"ip": ip, "hostnames": [name]} for name, ip in value.items()]}


def _volume(entry: Fields) -> Fields:
    """Return a volume of a pod without its name."""
    if claim := mapping(entry.get("persistentVolumeClaim")):
        return {"claim": claim.get("claimName", "")}
    return {key: item for key, item in entry.items() if key != "name"}


def mounted(volumes: Mapping[str, Data], mounts: Data) -> Fields:
    """Merge volumes with a container's mounts of them; one in memory at /dev/shm becomes `shm`."""
    merged, shm = dict(volumes), ""
    for mount in mappings(mounts):
        name = str(mount.get("name", ""))
        scratch = mapping(merged.get(name)).get("emptyDir")
        if mount.get("mountPath") == _SHARED_MEMORY and (name not in merged or scratch is not None):
            shm = mapping(scratch).get("sizeLimit", "auto")
            merged.pop(name, None)
        elif name in merged:
            options = {key: item for key, item in mount.items() if key != "name"}
            merged[name] = {**merged[name], **options}
    return {key: field for key, field in (("volumes", merged), ("shm", shm)) if field}


def flags(value: Data) -> Fields | None:
    """Convert the words of a command line, or a mapping, to flags."""
    if isinstance(value, Mapping):
        return {"flags": value}
    options = _words(value)
    if options and all(isinstance(option, Mapping) for option in options):
        return {"flags": {key: item for each in options for key, item in _option(mapping(each))}}
    if options and all(isinstance(word, str) and _ASSIGNED.match(word) for word in options):
        options = [f"--{word}" for word in options]
    if not options or not str(options[0]).startswith("--"):
        return None
    by_name, key = dict[str, Data](), ""
    for word in options:
        if isinstance(word, str) and word.startswith("--"):
            key, equals, text = word[2:].partition("=")
            by_name[key], key = (text, "") if equals else (True, key)
        elif key:
            by_name[key], key = word, ""
        else:
            return None
    return {"flags": by_name}


def _option(entry: Fields) -> Iterable[tuple[str, Data]]:
    """Return an option of a list, by its name."""
    if entry.keys() == {"name", "value"}:
        return [(str(entry["name"]).removeprefix("--"), entry["value"])]
    return entry.items()


def arguments(value: Data) -> Fields | None:
    """Return the fields for a program's arguments: flags, or else plain words; None if neither."""
    if as_flags := flags(value):
        return as_flags
    given = _words(value)
    return {"entrypoint": {"args": [str(word) for word in given]}} if given else None


def overrides(value: Data) -> Fields | None:
    """Return the flags for the overrides of Hydra: `model=llama`."""
    as_flags = flags(value)
    return {**as_flags, "flagStyle": "k=v"} if as_flags else None


def _words(value: Data) -> list[Data]:
    return (
        list(words(value)) if isinstance(value, str) else value if isinstance(value, list) else []
    )


def words(text: str) -> list[str]:
    """Return the words of a command line, or [] if it is invalid, as with an unclosed quote."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def program(text: str, *, is_module: bool) -> Fields | None:
    """Return the entrypoint of a command line where only a script or a module is expected."""
    first = next(iter(words(text)), "")
    if is_module and first == text and "/" in first and "." not in first:
        return {"entrypoint": {"module": first.strip("/").replace("/", ".")}}
    if is_module and not _starts_programs(first) and not first.endswith((".py", ".sh")):
        return entrypoint(f"python {'' if first == '-m' else '-m '}{text}")
    return entrypoint(text)


def _starts_programs(word: str) -> bool:
    """Whether a word is an interpreter, a launcher, or a shell's own: no module."""
    launches = command.parse((word, "launch", "x")).launcher != "none"
    shell = SHELLS.fullmatch(word) or _ASSIGNED.match(word)
    return bool(launches or shell or command.is_python(word))


def entrypoint(value: Data) -> Fields | None:
    """Return the entrypoint of a command line, or None for anything else."""
    given = _words(value)
    if not given or any(isinstance(word, dict | list) for word in given):
        return None
    argv = [str(word) for word in given]
    if isinstance(value, str) and (_ASSIGNED.match(argv[0]) or _OPERATORS.intersection(argv)):
        return {"entrypoint": {"argv": ["bash", "-c", value]}}
    if argv[0].endswith(".py"):
        argv = ["python", *argv]
    if argv[0].endswith(".sh") and "/" not in argv[0]:  # which PATH does not have
        argv = ["bash", *argv]
    if argv[0] == "-m":
        argv = ["python", *argv]
    if argv[0].startswith("-"):  # an option, of no program
        return None
    if len(argv) > 1 and command.is_python(argv[0]) and argv[1].endswith(".py"):
        rest: Fields = {"args": argv[2:]} if argv[2:] else {}
        return {"entrypoint": {"script": argv[1], **rest}}
    of_module = len(argv) > 2 and command.is_python(argv[0]) and argv[1] == "-m"
    if (
        of_module
        and not _starts_programs(argv[2])
        and command.parse(tuple(argv)).launcher == "none"
    ):
        rest = {"args": argv[3:]} if argv[3:] else {}
        return {"entrypoint": {"module": argv[2], **rest}}
    return _launched(argv) or {"entrypoint": {"argv": argv}}


def _launched(argv: list[str]) -> Fields | None:
    """Return the fields for a command line that begins with a launcher, or None if it does not, or
    has an option that no job sets.
    """
    found = command.parse(tuple(argv))
    launcher = LAUNCHERS.get(found.launcher)
    if launcher is None or found.program is None:
        return None
    names = found.options.keys() - launcher.decided.keys()
    options = {
        name: True if launcher.options.get(name) == SWITCH else _amount(found.options[name])
        for name in sorted(names)
    }
    if any(launcher.problem(name, value)[0] for name, value in options.items()):
        return None
    rest: Fields = {"args": argv[found.program + 1 :]} if argv[found.program + 1 :] else {}
    return {
        "entrypoint": {"module" if found.is_module else "script": argv[found.program], **rest},
        "launcher": found.launcher,
        **({"launcherOptions": options} if options else {}),
        **_sizes(found),
    }


def _amount(text: str) -> Data:
    return int(text) if text.isdecimal() else text


def _sizes(found: command.Command) -> Fields:
    """Return the nodes, if there are several, and the processes of each that options name."""
    counts = {name: int(text) for name, text in found.options.items() if text.isdecimal()}
    nodes = max((counts.get(name, 1) for name in _NODES), default=1)
    procs = next((counts[name] for name in _PROCESSES if name in counts), 0)
    if "num-processes" in counts:  # which accelerate counts on all nodes
        procs = counts["num-processes"] // nodes
    sizes = {"nodes": nodes if nodes > 1 else 0, "procsPerNode": procs}
    return {field: size for field, size in sizes.items() if size}


def container(value: Data) -> Fields | None:
    """Return the fields of a pod's only container, or None if it has others that no job has."""
    only = mapping(value[0]) if isinstance(value, list) and len(value) == 1 else {}
    combined = dict[str, Data]()
    for key, item in only.items():
        form = _OF_A_CONTAINER.get(key)
        fields = form(item) if form else None
        if fields is None and key != "name":
            return None
        combined |= fields or {}
    return combined or None


_OF_A_CONTAINER: Mapping[str, Callable[[Data], Fields | None]] = {
    "image": image,
    "command": entrypoint,
    "args": arguments,
    "env": variables,
}


def resources(value: Data) -> Fields | None:
    """Return the amounts of a service, as `deploy` of Compose has them."""
    requested = dict[str, Data]()
    amounts = mapping(mapping(value).get("resources"))
    for amount in (mapping(amounts.get("reservations")), mapping(amounts.get("limits"))):
        if memory := amount.get("memory"):
            requested["memory"] = size(memory) or memory
        if cpus := amount.get("cpus"):
            requested["cpu"] = str(cpus)
        for device in mappings(amount.get("devices")):
            if "gpu" in str(device.get("capabilities", "")) and type(device.get("count")) is int:
                requested["gpu"] = device["count"]
    return {"resources": requested} if requested else None


def service_account(value: Data) -> Fields | None:
    """Return the ServiceAccount of a chart's values."""
    name = mapping(value).get("name")
    return {"serviceAccount": name} if isinstance(name, str) else None


# --- mappings by name, and what an environment has ------------------------------------------------


def named(field: str, value: Data) -> Fields | None:
    """Convert a list of names, or of mappings with a name, to a mapping by name."""
    by_name = dict[str, Data]()
    for entry in value if isinstance(value, list) else [value]:
        name = entry if isinstance(entry, str) else mapping(entry).get("name")
        if not isinstance(name, str):
            return None
        by_name[name] = {key: item for key, item in mapping(entry).items() if key != "name"}
    return {field: by_name} if by_name else None


def labels(field: str, value: Data) -> Fields | None:
    """Return labels by name, from `team=nlp`, or from a list of these or of names with values."""
    texts = value if isinstance(value, list) else [value]
    if texts and all(mapping(text).keys() == {"name", "value"} for text in texts):
        texts = [f"{text['name']}={text['value']}" for text in texts]
    pairs = [text.partition("=") for text in texts if isinstance(text, str) and "=" in text]
    by_name = {name: text for name, _, text in pairs}
    return {field: by_name} if len(pairs) == len(texts) else None


def kubernetes(value: Data) -> Fields | None:
    """Return the version of a cluster."""
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
    """Return references as names, without their mappings."""
    entries = value if isinstance(value, list) else [value]
    return at(field, [mapping(entry).get("name", entry) for entry in entries])


def _seconds(field: str, value: Data) -> Fields | None:
    return at(field, f"{value}s") if type(value) is int else _duration(field, value)


def _duration(field: str, value: Data) -> Fields | None:
    normalized = duration(value)
    return at(field, normalized) if normalized else None


def _size(field: str, value: Data) -> Fields | None:
    return _text(field, size(value) or value)


def _quantity(field: str, value: Data) -> Fields | None:
    return _text(field, size(value, decimal=True) or value)


def _gpus(field: str, value: Data) -> Fields | None:
    count = gpu_count(value)
    return None if count is None else at(field, count)


def _suspended(field: str, value: Data) -> Fields | None:
    states = {"true": "suspended", "yes": "suspended", "false": "active", "no": "active"}
    state = states.get(str(value).lower())  # yes is a text since YAML 1.2
    return at(field, state) if state else None


def _host(field: str, value: Data) -> Fields | None:
    return at(field, True) if value == "host" else None


def _user(field: str, value: Data) -> Fields | None:
    user, _, group = str(value).partition(":")
    if not user.isdecimal() or (group and not group.isdecimal()):
        return None
    ids: dict[str, Any] = {"runAsUser": int(user), "runAsGroup": int(group or 0)}
    return at(field, ids if group else {"runAsUser": int(user)})


def _megabytes(field: str, value: Data) -> Fields | None:
    """Return an amount of Slurm, in megabytes if it has no unit."""
    return at(field, f"{value}Mi") if str(value).isdecimal() else _size(field, value)


def _gigabytes(field: str, value: Data) -> Fields | None:
    """Return an amount of SkyPilot, in GB if it has no unit."""
    return at(field, f"{value}Gi") if str(value).isdecimal() else _size(field, value)


def _minutes(field: str, value: Data) -> Fields | None:
    """Convert a Slurm time limit; a bare number is in minutes."""
    return at(field, f"{value}m") if str(value).isdecimal() else _duration(field, value)


def _tolerations(field: str, value: Data) -> Fields | None:
    """Convert taints, as Kubernetes or `kubectl taint` writes them, to their tolerations."""
    tolerations = list[Data]()
    for taint in value if isinstance(value, list) else [value]:
        of = mapping(taint)
        given = of and {**of, "operator": "Equal" if "value" in of else "Exists"}
        tolerations.append(given or toleration(taint))
    return at(field, tolerations) if all(tolerations) else None


def _cores(field: str, value: Data) -> Fields | None:
    return _text(field, cores(value) or value)


def _elastic(field: str, value: Data) -> Fields | None:
    """Return a number or range of nodes: from 4, "1:4", or the policy of a PyTorchJob."""
    least, most = (mapping(value).get(key) for key in ("minReplicas", "maxReplicas"))
    if match := _RANGE.fullmatch(str(value)):
        least, most = int(match[1]), int(match[2])
    if least and most:
        return {"elastic": {"minNodes": least, "maxNodes": most}}
    return _number(field, value)


def elastic(value: Data) -> Fields | None:
    """Return the fewest and the most nodes of a range: "2-4", or a list of the two."""
    parts = [str(part) for part in value] if isinstance(value, list) else [str(value)]
    match = _RANGE.fullmatch("-".join(parts))
    if match is None:
        return None
    least, most = sorted((int(match[1]), int(match[2])))
    return {"elastic": {"minNodes": least, "maxNodes": most}}


def mounted_text(value: str) -> Fields | None:
    """Return a volume that is one text: a path, or its claim and the path."""
    match = _BIND.fullmatch(value if ":" in value else f"x:{value}")
    if match is None:
        return None
    read_only: Fields = {"readOnly": True} if match[3] else {}
    return {"claim": match[1] if ":" in value else "…", "mountPath": match[2], **read_only}


def _per_node(field: str, value: Data) -> Fields | None:
    """Convert a worker's requests, by the names of the Kubeflow SDK, which are lower case."""
    names = {"nvidia.com/gpu": "gpu", "gpu": "gpu", "cpu": "cpu", "memory": "memory"}
    amounts = {names[key]: item for key, item in mapping(value).items() if key in names}
    if len(amounts) != len(mapping(value)):
        return None
    texts = {
        key: item if key == "gpu" else size(item) or str(item) for key, item in amounts.items()
    }
    return at(field, texts) if texts else None


def _fields(field: str, value: Data) -> Fields | None:
    """Return the fields of a part of a manifest that a spec does not have, by the names of jobs."""
    from trainwright.documents.validation.other_names import of_job  # the table has these forms

    translated = dict[str, Data]()
    for key, item in mapping(value).items():
        row = of_job(key)
        if row is None:
            translated[key] = item
        elif row.field:
            translated |= row.written(item) or {key: item}
    return {key: item for key, item in translated.items() if key != "namespace"} or None


def _processes(field: str, value: Data) -> Fields | None:
    """Convert a number of processes, or torchrun's word for one per accelerator of the node."""
    return at(field, "auto") if value in ("gpu", "gpus", "cpu") else _scalar(field, value)


def _capabilities(field: str, value: Data) -> Fields | None:
    """Convert the capabilities that a Kubernetes container adds, or a list of them."""
    added = mapping(value).get("add", value)
    return at(field, added) if isinstance(added, list) else None


def security(value: Data) -> Fields | None:
    """Return what a securityContext sets, without `drop`: capabilities not added are dropped."""
    settings = dict(mapping(value))
    if isinstance(added := mapping(settings.get("capabilities")).get("add"), list):
        settings["capabilities"] = added
    return {"security": settings} if settings else None


def _mounts(field: str, value: Data) -> Fields | None:
    """Return flags for buckets by the folder that they would be at: a program reads their URLs."""
    urls = mapping(value)
    if not urls or not all("://" in str(url) for url in urls.values()):
        return None
    return {"flags": {str(path).rstrip("/").rpartition("/")[2]: url for path, url in urls.items()}}


def _whole(form: Callable[[Data], Fields | None]) -> Form:
    """Return a form for which the value alone decides the fields."""
    return lambda field, value: form(value)


FORMS: Mapping[str, Form] = {
    "arguments": _whole(arguments),
    "capabilities": _capabilities,
    "container": _whole(container),
    "cores": _cores,
    "duration": _duration,
    "elastic": _elastic,
    "entrypoint": _whole(entrypoint),
    "fields": _fields,
    "flags": _whole(flags),
    "gigabytes": _gigabytes,
    "gpus": _gpus,
    "image": _whole(image),
    "host": _host,
    "hosts": _whole(host_aliases),
    "mapping": _mapping,
    "mounts": _mounts,
    "megabytes": _megabytes,
    "minutes": _minutes,
    "names": _names,
    "number": _number,
    "overrides": _whole(overrides),
    "perNode": _per_node,
    "processes": _processes,
    "quantity": _quantity,
    "resources": _whole(resources),
    "scalar": _scalar,
    "seconds": _seconds,
    "size": _size,
    "security": _whole(security),
    "suspended": _suspended,
    "text": _text,
    "tolerations": _tolerations,
    "user": _user,
    "variables": _whole(variables),
    "volumes": _whole(volumes),
}
