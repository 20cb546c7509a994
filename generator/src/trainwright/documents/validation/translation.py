"""What to write instead of another tool's form or name, with the value that was written.

A remedy that only shows a field's form leaves the rest to the reader. None is given that a spec
would not accept. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.job import JOB_FIELDS
from trainwright.datatypes.pointer import Pointer, with_value
from trainwright.documents.validation import kubernetes_fields
from trainwright.documents.validation import other_forms as forms
from trainwright.documents.validation.other_forms import Fields, at
from trainwright.findings import credentials

_API_VERSION, _JOB_SPEC = "trainwright.io/v1alpha1", "JobSpec"
_FORMS: Mapping[str, Callable[[Data], Fields | None]] = {
    "image": forms.image,
    "env": forms.variables,
    "volumes": forms.volumes,
    "flags": forms.flags,
    "elastic": forms.elastic,
    "entrypoint": forms.entrypoint,
    "serviceAccount": forms.service_account,
    "tolerations": forms.tolerations,
    "kubernetes": forms.kubernetes,
}
# The key that is meant where a lone value stands for a mapping, if the mapping accepts it.
_ALONE = {
    "emptyDir": "sizeLimit",
    "git": "url",
    "gitops": "engine",
    "kueue": "version",
    "metrics": "port",
    "repository": "url",
}
_ANYWHERE = frozenset({"env", "tolerations"})  # in defaults, pools, init containers, roles
_HANDLERS = frozenset("livenessProbe readinessProbe startupProbe preStop postStart".split())
_COMMANDS = frozenset({"args", "argv", "command"})
# Mappings by name that others have as lists.
_BY_NAME = frozenset("pools queues secrets targets initContainers sidecars roles".split())
_LABELS = frozenset("labels annotations nodeSelector podLabels podAnnotations".split())
TEXTS = _LABELS | {"env"}  # by name, of any content


def of_field(pointer: Pointer, value: Data, around: Fields) -> str:
    """Return what to write for a field whose value has another form, or "".

    `around` are the fields of the mapping that it is in.
    """
    if pointer.parent.last == "tolerations":
        fields = forms.toleration(value)
        return f"Write `{_inline(fields)}`." if fields else ""
    if pointer.last == "volumes" and (remedy := _of_folders(value)):
        return remedy
    if pointer.parent == "/volumes" and isinstance(value, str):
        mount = forms.mounted_text(value)
        named = "…" in str(mount)
        return (
            written({pointer.last: mount})[: -1 if named else None] + (" with its claim." * named)
            if mount
            else ""
        )
    if pointer == "/checkpoint" and (value is True or isinstance(value, str)):
        path = "runs" if value is True else str(value)
        return _of_checkpoints(path, mapping(around.get("volumes")))
    if pointer.parent.last == "waivers" and not isinstance(value, list | dict):
        reason = value if isinstance(value, str) and len(value) > _SHORT else "…"
        told = written({pointer.last: {"reason": reason, "until": "…"}}).removesuffix(".")
        return f"{told}, with its reason and the last day on which it holds."
    short = (each for each in _short_forms(pointer, value) if _fits(pointer.parent, each, {}))
    return _tagged(first_valid(_forms_of_field(pointer, value, around)) or next(short, None))


def _of_folders(value: Data) -> str:
    """Return how folders that Docker mounts are written: a person knows the claim of the files."""
    mounts, path = forms.folders(value)
    if not mounts:
        return ""
    node = f"; a folder of each node is `hostPath: {{path: {path}}}`" if path[0] == "/" else ""
    return f"{written(mounts).removesuffix('.')} with the claim that has its files{node}."


_SHORT = 2  # characters of a text that gives no reason


def _of_checkpoints(path: str, volumes: Fields) -> str:
    """Return how a folder for checkpoints is written: a volume of the job, and what is below it."""
    for name, volume in volumes.items():
        mount = str(mapping(volume).get("mountPath", "")).rstrip("/")
        if mount and path.startswith(f"{mount}/"):
            below = path.removeprefix(f"{mount}/").rstrip("/")
            return written({"checkpoint": {"volume": name, "path": below}})
    folder, path = (path.rstrip("/"), "runs") if path[:1] == "/" else ("/checkpoints", path)
    if len(volumes) == 1 and folder == "/checkpoints":
        return written({"checkpoint": {"volume": next(iter(volumes)), "path": path}})
    fields = {
        "volumes": {"checkpoints": {"claim": "…", "mountPath": folder}},
        "checkpoint": {"volume": "checkpoints", "path": path},
    }
    return f"{written(fields).removesuffix('.')}, with the claim that keeps them."


def _short_forms(pointer: Pointer, value: Data) -> Iterator[Fields]:
    """Yield full fields for short forms: a mapping's only value, or a list as one text."""
    field = pointer.last
    if value is True and field == "emptyDir":
        yield {field: {}}
    elif field in _ALONE and not isinstance(value, dict | list):
        yield {field: {_ALONE[field]: value}}
    if isinstance(value, str):
        yield from _of_text(field, value)
    if isinstance(value, list) and field in _HANDLERS:
        alone = value[0] if len(value) == 1 and isinstance(value[0], Mapping) else None
        yield {field: alone or {"exec": {"command": value}}}
    if isinstance(value, Mapping) and len(value) == 1:
        yield {field: next(iter(value.values()))}
    if isinstance(value, list) and field == "dnsConfig":
        yield {field: {"nameservers": value}}


def _of_text(field: str, value: str) -> Iterator[Fields]:
    """Yield the fields for a mapping or a list that is written as one text."""
    if field in ("persistentVolumeClaim", "pvc"):
        yield {"claim": value}
    if field == "hostPath":
        yield {field: {"path": value}}
    if field == "code" and "://" in value:
        yield {field: {"git": {"url": value}}}
    if field.startswith("/"):  # of files
        yield {field: {"content": value} if "\n" in value else {"from": value.removeprefix("./")}}
    server, colon, path = value.partition(":")
    if field == "nfs" and colon and path.startswith("/"):
        yield {field: {"server": server, "path": path}}
    if field == "argv" and value.partition(" ")[0].endswith((".py", ".sh")):
        yield forms.entrypoint(value) or {}
    if field in _COMMANDS and (words := forms.words(value)):
        yield {field: words}


def _forms_of_field(pointer: Pointer, value: Data, around: Fields) -> Iterable[Fields | None]:
    """Yield the fields for a value in the form of Kubernetes, Docker or a command line."""
    *above, field = pointer.parts
    if field == "secrets" and around.get("kind") == _JOB_SPEC:
        return  # a name says neither which key nor which variable
    if field in _BY_NAME:
        yield forms.named(field, value)
    elif field in _LABELS:
        yield forms.labels(field, value)
    elif field in _FORMS and (not above or above[-1] == "defaults" or field in _ANYWHERE):
        fields = _FORMS[field](value)
        mounts = around.get("volumeMounts") if field == "volumes" else None
        yield forms.mounted(fields["volumes"], mounts) if fields and mounts else fields
    elif field == "args" and isinstance(value, Mapping):
        yield {"flags": value}
    elif field == "hostAliases":
        yield forms.host_aliases(value)
    if isinstance(value, Mapping | str) and field not in {*_COMMANDS, "hostAliases"}:
        yield {field: [value]}


def of_key(key: str, value: Data, around: Fields) -> str:
    """Return what to do with a key that jobs have by another name, or ""."""
    from trainwright.documents.validation.other_names import (
        of_job,  # a file, which only mistakes need
    )

    row = of_job(key)
    if key.startswith(_ANCHORS):
        return "Write its values where they are used; what jobs share is in a base they extend."
    fields = first_valid(_fields_of_key(key, value, around))
    fields = fields or first_valid([row.written(value) if row else None, _as_in_a_pod(key, value)])
    return _tagged(fields) or (row.remedy if row else "")


_ANCHORS = ("x-", ".")  # before keys that hold what a file repeats, in Compose and GitLab


def _fields_of_key(key: str, value: Data, around: Fields) -> Iterable[Fields | None]:
    if key.removeprefix("--") not in ("", key):
        yield {"flags": {key[2:]: value}}
    if key == "volumeMounts":
        pod_volumes = around.get("volumes")
        yield forms.mounted(
            (forms.volumes(pod_volumes) or {"volumes": mapping(pod_volumes)})["volumes"], value
        )


def _as_in_a_pod(key: str, value: Data) -> Fields | None:
    """Return a pod's field where a job has it, or None."""
    place = kubernetes_fields.of_job(key)
    path = place.fields[0] if place and place.fields else "<"
    if path == "security":
        return forms.security(value)
    as_list = path == "topologySpread" and isinstance(value, Mapping)
    return None if "<" in path else at(path, [value] if as_list else value)


def of_mapping(pointer: Pointer, around: Fields) -> str:
    """Return what to write for a mapping whose keys mean something together, or ""."""
    return written(first_valid(_fields_of_mapping(pointer, around)))


def _fields_of_mapping(pointer: Pointer, around: Fields) -> Iterable[Fields | None]:
    if pointer.parent.last == "env":
        yield forms.variable(pointer.last, around)
    if pointer.last == "image" and "registry" in around:
        rest = {key: item for key, item in around.items() if key not in ("registry", "name")}
        registry = str(around["registry"]).rstrip("/")
        path = around.get("repository", around.get("name", ""))
        yield {"image": {**rest, "repository": f"{registry}/{path}"}} if path else None
    if pointer.parent.last == "volumes" and around.keys() & forms.CLAIM:
        yield {"volumes": {pointer.last: forms.made_claim(around)}}


def of_part(pointer: Pointer, key: str, value: Data, around: Fields) -> str:
    """Return what to write for a key inside of a field that has another name there, or ""."""
    from trainwright.documents.validation.other_names import of_mapping as row_of

    if key in ("configMapRef", "secretRef"):
        return written({key.removesuffix("Ref"): mapping(value).get("name")})
    if fields := first_valid(_fields_of_part(pointer, key, value)):
        return written(fields)
    if row := row_of(pointer, key):
        fields = row.written(value)
        rest = {name: item for name, item in around.items() if name != key}
        return written(fields if fields and _fits(pointer, fields, rest) else None) or row.remedy
    return ""


def _fields_of_part(pointer: Pointer, key: str, value: Data) -> Iterable[Fields | None]:
    above = pointer.last
    if not pointer:  # of an environment
        yield {"namespace": mapping(value).get("namespace")} if key == "metadata" else None
        yield {"defaults": _FORMS[key](value) if key in _FORMS else {key: value}}
        yield _in_defaults(key, value)
    if key in ("gpu", "gpus") and above in ("requests", "limits"):
        yield {"resources": {"gpu": value}}
    if "/" in key and above in ("resources", "requests", "limits"):
        yield {"resources": {"gpu": value} if key in _GPU else {"extended": {key: value}}}
    if pointer.parent == "/secrets" and key == "secretKeyRef":
        yield {"secrets": {above: value}}
    if above == "image" and key == "name":
        yield forms.image(value)
    if above == "resources" and key == "image_id":  # of SkyPilot
        yield forms.image(str(value).removeprefix("docker:"))
    if above in (*_HANDLERS, "entrypoint"):
        yield _of_command(above, key, value)
    if pointer == "/gitops" and key in _OF_ARGO_CD:
        yield {"gitops": {"repository": {_OF_ARGO_CD[key]: value}}}
    if pointer.parent == "/flags" and not isinstance(value, dict | list):
        yield {"flags": {f"{above}.{key}": value}}


def _of_command(above: str, key: str, value: Data) -> Fields | None:
    """Return the field for a command under another name, in a probe or the entrypoint, or None."""
    if above in _HANDLERS:
        return {above: {"exec": {"command": value}}} if key == "command" else None
    if key in ("command", "cmd"):
        return forms.entrypoint(value)
    return {"entrypoint": {"script": value}} if key in ("file", "path", "program") else None


def _in_defaults(key: str, value: Data) -> Fields | None:
    """Return the field of `defaults` for a field of jobs under another name, or None."""
    from trainwright.documents.validation.other_names import of_job

    row = of_job(key)
    fields = row.written(value) if row else None
    return {"defaults": fields} if fields else None


def of_elsewhere(pointer: Pointer, value: Data) -> str:
    """Return what to do with a key of a job that the mapping it is in does not have, or ""."""
    if len(pointer.parts) != 2 or pointer.parts[0] not in JOB_FIELDS:
        return ""
    key = pointer.last
    if key not in JOB_FIELDS:
        return of_key(key, value, {})
    told = written(first_valid([{key: value}])).removesuffix(".") or f"Write {key}"
    return f"{told} at the top: it is of the whole job."


def as_flag(key: str, value: Data) -> str:
    """Return how to write an option of the program, for a key that may be one."""
    if isinstance(value, dict | list) or value is None or credentials.named(key, str(value)):
        return "Options of the program are written in flags."
    return f"If it is an option of the program, write `flags: {_inline({key: value})}`."


_GPU = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
_OF_ARGO_CD = {"repoURL": "url", "targetRevision": "revision"}


def of_manifest(file: str, data: Fields) -> str:
    """Return what to do with a file of another tool, such as a manifest, or "" for a job spec."""
    version, kind = data.get("apiVersion"), data.get("kind")
    of_kubernetes = version is not None and version != _API_VERSION and kind != _JOB_SPEC
    of_compose = kind is None and isinstance(data.get("services"), Mapping)
    if of_kubernetes and kind == "Secret":
        return "Create it in the cluster, not in git, and name it under `secrets` of a job."
    if of_kubernetes and not _may_train(str(kind)):
        folder = "/".join([*file.split("/")[:2], "objects/"])
        how = f"`git mv {file} {folder}`, unless something else applies it"
        return f"A {kind} does not train, and stands beside the jobs as it is: {how}"
    return of_other_file(file) if of_kubernetes or of_compose else ""


def _may_train(kind: str) -> bool:
    """Whether `trainwright import` reads objects of a kind, or tells what to do with them."""
    named = kind.startswith("Job") or kind.endswith(("Job", "List"))
    return kind in _OF_TRAININGS or (named and kind != "CronJob")


_OF_TRAININGS = ("AppWrapper", "Workflow", "RayCluster", "LeaderWorkerSet", "None")


def of_other_file(file: str) -> str:
    """Return the command that makes a spec of a file that another tool reads."""
    environment = "".join(file.split("/")[1:2])
    return f"Make it a job spec: `trainwright import --force --env {environment} {file}`"


RESUMED = (
    "Remove it: a run goes on from its own newest checkpoint. A fresh one starts from the folder "
    "of an earlier run, which `trainwright plan` names."
)
_BUCKET = re.compile(r"(?:s3a?|gs|gcs|az|abfss?|wasbs?|oss|oci|hf)://\S+")
_STORES = frozenset("s3 gcs gs bucket s3Bucket bucketName".split())


def of_bucket(pointer: Pointer, value: Data, around: Data) -> str:
    """Return how an object store is used, for a URL of one where a volume is expected, or "".

    `around` is the mapping of a key that is not known, or else the value.
    """
    holder = next((part for part in pointer.parts if part in ("volumes", "checkpoint")), "")
    texts = [*value.values()] if isinstance(value, Mapping) else value
    texts = texts if isinstance(texts, list) else [texts]
    url = next((text for text in texts if isinstance(text, str) and _BUCKET.match(text)), "")
    url = re.sub(r":/[^/].*", "", url).rstrip("/")  # of a mount as of Docker
    named = holder == "volumes" and pointer.last in _STORES
    if not holder or not (url or named):
        return ""
    if holder == "checkpoint":
        env = {"TRAINWRIGHT_CHECKPOINT_DIR": f"{url}/${{{{ run.name }}}}"}
        if every := mapping(around).get("every"):
            env["TRAINWRIGHT_CHECKPOINT_EVERY"] = str(every)
        at = written({"env": env})
        return f"Checkpoints in a bucket go by its URL, and to no volume. {at} Remove checkpoint."
    name = next(iter(pointer.parts[pointer.parts.index(holder) + 1 :]), "")
    flag = "data" if not name or name.isdecimal() else name
    told = written({"flags": {flag: url or f"s3://{value if isinstance(value, str) else flag}"}})
    return (
        f"A bucket is not a volume: the program reads its URL, as the role of a serviceAccount "
        f"allows. {told} A driver that mounts buckets is a claim or csi."
    )


# --- the words of a remedy, and whether a spec accepts what they say ------------------------------


def written(fields: Fields | None) -> str:
    """Return "Write `nodes: 4`.", which `check --fix` and editors can apply as is, or ""."""
    lines = shown(fields or {}).replace("\n", "` and `")
    return f"Write `{lines}`." if lines else ""


def shown(fields: Fields) -> str:
    """Return fields as lines of YAML, without credentials."""
    return credentials.redact("\n".join(f"{key}: {_inline(item)}" for key, item in fields.items()))


def _tagged(fields: Fields | None) -> str:
    """Return what to write, with room for the tag of an image that has neither that nor a digest:
    only a person knows it, so that nothing applies this as is.
    """
    image = mapping((fields or {}).get("image"))
    if "repository" not in image or image.keys() & {"tag", "digest"}:
        return written(fields)
    remedy = written({**(fields or {}), "image": {**image, "tag": "…"}})
    return f"{remedy.removesuffix('.')} with the tag to run, or its `digest`."


def _inline(value: Data) -> str:
    from trainwright.documents import yamlio  # which reads specs, and so their errors

    return yamlio.inline(_hidden(value))


def _hidden(value: Data) -> Data:
    """Return a value without its credentials, which the names of keys in its mappings tell."""
    if not isinstance(value, Mapping):
        return value
    hidden = {key for key, item in value.items() if _is_credential(key, item)}
    return {k: credentials.HIDDEN if k in hidden else _hidden(item) for k, item in value.items()}


def _is_credential(key: str, value: Data) -> bool:
    return not isinstance(value, Mapping) and credentials.named(key, str(value))


def first_valid(candidates: Iterable[Fields | None]) -> Fields | None:
    """Return the first fields that are valid in a job or an environment, or None."""
    from trainwright.documents.validation import schema  # which words its errors by this

    job = {"apiVersion": _API_VERSION, "kind": _JOB_SPEC, "name": "job"}
    for fields in candidates:
        if fields and schema.job_file().accepts({**job, **fields}):
            return fields
        if fields and schema.environment_file().accepts({**_LEAST, **fields}):
            return fields
    return None


def _fits(pointer: Pointer, fields: Fields, beside: Fields) -> bool:
    """Whether a spec that has these fields in a mapping has nothing wrong with them.

    They are in it, or, by the name of one that all jobs have, at the top.
    """
    return belongs(pointer, fields, beside) or first_valid([fields]) is not None


def belongs(pointer: Pointer, fields: Fields, beside: Fields) -> bool:
    """Whether a mapping of a spec may have these fields, beside others that it has."""
    from trainwright.documents.validation import schema  # which words its errors by this

    inside = with_value(None, pointer, {**beside, **fields})
    job = {"apiVersion": _API_VERSION, "kind": _JOB_SPEC, "name": "job"}
    for against, data in ((schema.job_file(), job), (schema.environment_file(), _LEAST)):
        wrong = [
            each.pointer
            for each in against.explain({**data, **mapping(inside)})
            if not (each.missing and pointer.within(each.pointer))
        ]
        if not any(_is_about(at, pointer / key) for at in wrong for key in fields):
            return True
    return False


def suits(pointer: Pointer, value: Data) -> bool:
    """Whether a field takes a mapping or list if one is written, or a scalar if one is."""
    many: tuple[Data, ...] = ({}, [])
    holds_many = any(_fits(pointer.parent, {pointer.last: example}, {}) for example in many)
    return holds_many == isinstance(value, dict | list)


def _is_about(pointer: Pointer, field: Pointer) -> bool:
    return pointer.within(field) or field.within(pointer)


_LEAST: Fields = {  # of an environment
    "apiVersion": _API_VERSION,
    "kind": "Environment",
    "namespace": "training",
    "kubernetes": {"version": "1.31"},
    "targets": {"job": {}},
}
