"""What to write in place of what has another tool's form or name, with the value that was written.

A remedy that shows a field's form leaves the rest to the reader. None of these is given that a spec
would not accept. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trainwright.datatypes.model import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import mapping
from trainwright.findings import credentials
from trainwright.validation import kubernetes_fields
from trainwright.validation import other_forms as forms
from trainwright.validation.other_forms import Fields, at

_API_VERSION, _JOB_SPEC = "trainwright.io/v1alpha1", "JobSpec"
_FORMS: Mapping[str, Callable[[Data], Fields | None]] = {
    "image": forms.image,
    "env": forms.variables,
    "volumes": forms.volumes,
    "flags": forms.flags,
    "entrypoint": forms.entrypoint,
    "serviceAccount": forms.service_account,
    "kubernetes": forms.kubernetes,
}
# Mappings by name that others have as lists.
_BY_NAME = frozenset("pools queues secrets targets initContainers sidecars roles".split())
_LABELS = frozenset("labels annotations nodeSelector podLabels podAnnotations".split())


def of_field(pointer: Pointer, value: Data, around: Fields) -> str:
    """Return what to write for a field whose value has another form, or "".

    `around` are the fields of the mapping that it is in.
    """
    return written(_first_valid(_forms_of_field(pointer, value, around)))


def _forms_of_field(pointer: Pointer, value: Data, around: Fields) -> Iterable[Fields | None]:
    *above, field = pointer.parts
    if field == "secrets" and around.get("kind") == _JOB_SPEC:
        return  # a name says neither which key nor which variable
    if field in _BY_NAME:
        yield forms.named(field, value)
    elif field in _LABELS:
        yield forms.labels(field, value)
    elif field in _FORMS and (not above or above[-1] == "defaults" or field == "env"):
        found = _FORMS[field](value)
        mounts = around.get("volumeMounts") if field == "volumes" else None
        yield forms.mounted(found["volumes"], mounts) if found and mounts else found
    if isinstance(value, Mapping | str):
        yield {field: [value]}


def of_key(key: str, value: Data, around: Fields) -> str:
    """Return what to do with a key that jobs have by another name, or ""."""
    from trainwright.validation.other_names import of_job  # a file, which only mistakes need

    row = of_job(key)
    fields = _first_valid(_fields_of_key(key, value, around))
    fields = fields or _first_valid([row.written(value) if row else None, _as_in_a_pod(key, value)])
    return written(fields) or (row.remedy if row else "")


def _fields_of_key(key: str, value: Data, around: Fields) -> Iterable[Fields | None]:
    if key.removeprefix("--") not in ("", key):
        yield {"flags": {key[2:]: value}}
    if key == "volumeMounts":
        there = around.get("volumes")
        yield forms.mounted((forms.volumes(there) or {"volumes": mapping(there)})["volumes"], value)


def _as_in_a_pod(key: str, value: Data) -> Fields | None:
    """A field of a pod where a job has it."""
    place = kubernetes_fields.of_job(key)
    path = place.fields[0] if place and place.fields else "<"
    return None if "<" in path else at(path, value)


def of_part(pointer: Pointer, key: str, value: Data) -> str:
    """Return what to write for a key inside of a field that has another name there, or ""."""
    if key in ("configMapRef", "secretRef"):
        return written({key.removesuffix("Ref"): mapping(value).get("name")})
    return written(_first_valid(_fields_of_part(pointer, key, value)))


def _fields_of_part(pointer: Pointer, key: str, value: Data) -> Iterable[Fields | None]:
    above = pointer.last
    if not pointer:  # of an environment
        yield {"namespace": mapping(value).get("namespace")} if key == "metadata" else None
        yield {"defaults": _FORMS[key](value) if key in _FORMS else {key: value}}
    if "/" in key and above in ("resources", "requests", "limits"):
        yield {"resources": {"gpu": value} if key in _GPU else {"extended": {key: value}}}
    if pointer.parent.last == "env" and (key == "valueFrom" or key.endswith("Ref")):
        source = value if key == "valueFrom" else {key: value}
        yield forms.variables([{"name": above, "valueFrom": source}])
    if pointer.parent == "/secrets" and key == "secretKeyRef":
        yield {"secrets": {above: value}}
    if above == "image" and key == "name":
        yield forms.image(value)
    if above == "entrypoint" and key in ("command", "cmd"):
        yield forms.entrypoint(value)
    if above == "entrypoint" and key in ("file", "path", "program"):
        yield {"entrypoint": {"script": value}}
    if pointer == "/gitops" and key in _OF_ARGO_CD:
        yield {"gitops": {"repository": {_OF_ARGO_CD[key]: value}}}
    if pointer.parent == "/flags" and not isinstance(value, dict | list):
        yield {"flags": {f"{above}.{key}": value}}


_GPU = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
_OF_ARGO_CD = {"repoURL": "url", "targetRevision": "revision"}


def of_manifest(file: str, data: Fields) -> str:
    """Return what to do with a file that another tool reads, or "" for one that is a spec."""
    version, kind = data.get("apiVersion"), data.get("kind")
    of_kubernetes = version is not None and version != _API_VERSION and kind != _JOB_SPEC
    of_compose = kind is None and isinstance(data.get("services"), Mapping)
    return of_other_file(file) if of_kubernetes or of_compose else ""


def of_other_file(file: str) -> str:
    """Return the command that makes a spec of a file that another tool reads."""
    environment = "".join(file.split("/")[1:2])
    return f"Make it a job spec: `trainwright import --force --env {environment} {file}`"


# --- the words of a remedy, and whether a spec accepts what they say ------------------------------


def written(fields: Fields | None) -> str:
    """Return "Write `nodes: 4`.", which `check --fix` and editors do as it stands, or ""."""
    from trainwright.documents import yamlio  # which reads specs, and so their errors

    lines = (f"{key}: {yamlio.inline(_hidden(value))}" for key, value in (fields or {}).items())
    shown = credentials.redact("\n".join(lines)).replace("\n", "` and `")
    return f"Write `{shown}`." if shown else ""


def _hidden(value: Data) -> Data:
    """A value without what its names say are credentials; a mapping names where one is."""
    if not isinstance(value, Mapping):
        return value
    hidden = {key for key, item in value.items() if _is_credential(key, item)}
    return {k: credentials.HIDDEN if k in hidden else _hidden(item) for k, item in value.items()}


def _is_credential(key: str, value: Data) -> bool:
    return not isinstance(value, Mapping) and credentials.named(key, str(value))


def _first_valid(candidates: Iterable[Fields | None]) -> Fields | None:
    """The first fields that a job or an environment may have."""
    from trainwright.validation import schema  # which words its errors by this

    job = {"apiVersion": _API_VERSION, "kind": _JOB_SPEC, "name": "job"}
    for fields in candidates:
        if fields and schema.job_file().accepts({**job, **fields}):
            return fields
        if fields and schema.environment_file().accepts({**_LEAST, **fields}):
            return fields
    return None


_LEAST: Fields = {  # of an environment
    "apiVersion": _API_VERSION,
    "kind": "Environment",
    "namespace": "training",
    "kubernetes": {"version": "1.31"},
    "targets": {"job": {}},
}
