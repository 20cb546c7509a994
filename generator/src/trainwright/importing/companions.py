"""Objects beside a workload for which a spec has fields: monitors, fetched secrets, a script.

A normal form has such objects as a whole, by their names. Here they take the form that a spec gives
them, for the workload and the rendered run alike, so that each of their values is accounted for.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data, dig, digits, mapping, stated, text
from trainwright.datatypes.manifest import Manifest
from trainwright.findings import credentials
from trainwright.importing import fetched, monitors
from trainwright.importing.equivalence import containers, form, programs
from trainwright.importing.equivalence.form import NormalForm
from trainwright.importing.fetched import Fetched
from trainwright.importing.names import Names, anonymous
from trainwright.kinds import operators
from trainwright.objects.own_labels import RUN
from trainwright.objects.pods.command import SCRIPT_PATH
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import Mount, Pod, Workload

SCRIPT = SCRIPT_PATH  # where a script that the spec holds is rendered to
_MOST = 131_072  # characters of such a script
_CONFIG = ("", "ConfigMap")
_MONITOR = (monitors.GROUP, monitors.KIND)
_FETCHED = (fetched.GROUP, fetched.KIND)


def belongs(beside: Manifest, workload: Manifest, pod: Pod) -> bool:
    """Whether an object exists for a workload, and a spec can request what it does."""
    if beside.namespace and workload.namespace not in ("", beside.namespace):
        return False
    kind = beside.identity[:2]
    if kind == _MONITOR:
        numbers = {str(port.number) for port in pod.ports}
        ours = monitors.selects(beside.body, pod, workload.name)
        return ours and not numbers.isdisjoint(monitors.scraped(beside.body, (pod,)))
    if kind == _FETCHED:
        return _makes_variables(beside.body, pod)
    return kind == _CONFIG and (_is_script(beside, pod) or _is_files(beside, pod))


def _makes_variables(body: Mapping[str, Data], pod: Pod) -> bool:
    """Whether an ExternalSecret fetches the values of variables, all of them, and nothing else.

    Not so if its Secret is also used otherwise, or if it does not fetch each of the keys by name.
    """
    secret = fetched.secret_of(body)
    keys = {v.secret for v in pod.declared if v.secret and v.secret[0] == secret}
    mounted = {text(dig(mount.source, "secret", "secretName")) for mount in pod.mounts}
    elsewhere = secret in mounted or secret in pod.pull_secrets
    plain = {key.secret for key in fetched.fetched(body) if key.store and key.key}
    return bool(keys) and keys <= plain and not elsewhere and not fetched.is_templated(body)


# --- files ----------------------------------------------------------------------------------------

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?(?<=.)")
_MOST_OF_FILES = 900_000  # bytes of a ConfigMap: the spec's files have to fit into one together
# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation


def _is_files(config: Manifest, pod: Pod) -> bool:
    """Whether a ConfigMap has only files that a spec can hold, for the training container alone."""
    data, binary = (mapping(config.body.get(key)) for key in ("data", "binaryData"))
    texts = [text for text in data.values() if isinstance(text, str) and text and "\0" not in text]
    encoded = [
        text for text in binary.values() if isinstance(text, str) and _BASE64.fullmatch(text)
    ]
    mounted = any(mount.config == config.name for mount in pod.mounts)
    fits = sum(len(text.encode()) for text in (*texts, *encoded)) <= _MOST_OF_FILES
    plain = len(texts) == len(data) and len(encoded) == len(binary) and bool(data or binary)
    decoded = [base64.b64decode(text).decode("latin-1") for text in encoded]
    secret = any(credentials.redact(text) != text for text in (*texts, *decoded))
    return mounted and fits and plain and not secret and config.name not in _named(pod)


def _named(pod: Pod) -> frozenset[str]:
    """Return the names of ConfigMaps used by more than mounts of the training container."""
    others = (*pod.before, *pod.beside)
    origins = [variable.origin for variable in pod.declared]
    origins += [mapping(entry.get("valueFrom")) for c in others for entry in c.env]
    whole = [*pod.env_from, *(entry for c in others for entry in c.env_from)]
    mounts = (mount for c in others for mount in c.mounts)
    volumes = [pod.volumes.get(text(mount.get("name")), {}) for mount in mounts]
    references = [mapping(origin.get("configMapKeyRef")) for origin in origins]
    references += [mapping(entry.get("configMapRef")) for entry in whole]
    references += [mapping(source.get("configMap")) for source in volumes]
    return frozenset(str(reference.get("name")) for reference in references if reference)


def _written(held: str | bytes, literal: Callable[[str], str]) -> dict[str, Data]:
    """Return a file as a spec has it."""
    if isinstance(held, bytes):
        return {"binaryData": base64.b64encode(held).decode()}
    return {"content": literal(held)}


def files(
    manifests: Sequence[Manifest], pod: Pod, literal: Callable[[str], str]
) -> dict[str, Data]:
    """Return the files that ConfigMaps among the objects give the training container, by path."""
    configs = operators.configs(tuple(manifests))
    by_path: dict[str, Data] = {}
    for mount in pod.mounts:
        if mount.config in configs:
            alone = replace(pod, mounts=(mount,))
            modes = dict(containers.modes(alone, configs))
            for path, held in containers.contents(alone, configs):
                own = {"mode": modes[path]} if path in modes else {}
                by_path[path] = {**_written(held, literal), **own}
    return by_path


# --- the script ----------------------------------------------------------------------------------


def _is_script(config: Manifest, pod: Pod) -> bool:
    """Whether a ConfigMap holds just the program of a pod, as a script that a spec can contain."""
    data = mapping(config.body.get("data"))
    if len(data) != 1 or config.body.get("binaryData"):
        return False
    text = dict(containers.files(pod, {config.name: data})).get(started(pod))
    fits = isinstance(text, str) and 0 < len(text) <= _MOST and "\0" not in text
    return fits and credentials.redact(str(text)) == text


def started(pod: Pod) -> str:
    """Return the path of the file that a pod starts as a spec would start a script, else ""."""
    program = programs.program(pod)
    plain = program.interpreter in ((), ("python",)) and not program.words
    if program.is_module or program.launcher in ("image", "tool") or not plain:
        return ""
    return str(PurePosixPath(program.path)) if program.path else ""


def script(run: NormalForm) -> str:
    """Return the text of the script that a run starts, or "" if it is unknown."""
    pod = run.pods[0]
    return pod.files.get(SCRIPT, "") if pod.program.path == SCRIPT else ""


def is_of_script(mount: Mount, pod: Pod) -> bool:
    """Whether a mount provides the script that a pod starts."""
    path = PurePosixPath(started(pod))
    return "configMap" in mount.source and PurePosixPath(mount.path) in (path, *path.parents)


# --- what a spec asks for ------------------------------------------------------------------------


def secrets(manifests: Sequence[Manifest], pod: Pod) -> dict[str, Data]:
    """Return, for each variable with a secret value, where the value comes from."""
    by_variable: dict[str, Data] = {}
    stores = _external(manifests)
    for variable in pod.declared:
        if variable.secret in stores:
            by_variable[variable.name] = {"external": stores[variable.secret].spec}
        elif variable.secret:
            by_variable[variable.name] = secret(mapping(variable.origin.get("secretKeyRef")))
    return by_variable


def secret(reference: Mapping[str, Data]) -> dict[str, Data]:
    """Return a key of a Secret."""
    named = {"name": reference.get("name"), "key": reference.get("key")}
    return {**named, **optional(reference)}


def optional(reference: Mapping[str, Data]) -> dict[str, Data]:
    return {"optional": True} if reference.get("optional") else {}


def _external(manifests: Sequence[Manifest]) -> dict[tuple[str, str] | None, Fetched]:
    """Return what External Secrets fetches, by the name and key of the Secret that gets it."""
    bodies = (m.body for m in manifests if m.identity[:2] == _FETCHED)
    return {entry.secret: entry for body in bodies for entry in fetched.fetched(body)}


def metrics(manifests: Sequence[Manifest], pod: Pod) -> dict[str, Data]:
    """Return the lowest port that is scraped or set for our own metrics; empty if there is none."""
    bodies = [m.body for m in manifests if m.identity[:2] == _MONITOR]
    named = [number for body in bodies for number in monitors.scraped(body, (pod,))]
    named += [value for name, value in pod.env if name == monitors.VARIABLE]
    numbers = [number for number in map(digits, named) if number is not None]
    return {"port": min(numbers)} if numbers else {}


# --- the normal form -----------------------------------------------------------------------------


def in_spec_terms(run: NormalForm, workload: Workload, manifests: Sequence[Manifest]) -> NormalForm:
    """Return a run with the objects next to it expressed as in a spec, under any names."""
    names = Names.of(workload)
    _, manifest = operators.find(tuple(manifests))
    pods = workload.training
    shown = form.every(workload) if len(run.pods) == len(pods) else form.sample(workload)
    stores = _external(manifests)
    of_groups = (pods[0], *(workload.of_role(role)[0] for role in workload.serving))
    used = frozenset(v.secret for pod in of_groups for v in pod.declared if v.secret)
    others = {k: v for k, v in run.beside.items() if k.partition("/")[0] not in _SAID_HERE}
    configs = [candidate for candidate in manifests if candidate.identity[:2] == _CONFIG]
    alone = any(_is_script(config, pods[0]) for config in configs)

    def in_terms(normalized: form.Pod, pod: Pod, *, alone: bool = False) -> form.Pod:
        return anonymous(_pod(normalized, pod, stores, alone=alone), names)

    pairs = zip(run.pods, (pods[at] for at in shown), strict=False)
    return replace(
        run,
        pods=tuple(in_terms(normalized, pod, alone=alone) for normalized, pod in pairs),
        roles={
            role: replace(served, pods=tuple(map(in_terms, served.pods, workload.of_role(role))))
            for role, served in run.roles.items()
        },
        beside={**others, **dict(_as_spec_fields(manifests, manifest, pods, used))},
    )


_SAID_HERE = (monitors.KIND, fetched.KIND)


def _pod(
    normalized: form.Pod,
    pod: Pod,
    stores: Mapping[tuple[str, str] | None, Fetched],
    *,
    alone: bool,  # whether the script that it starts is a ConfigMap's only file
) -> form.Pod:
    """Return a pod with its external secrets, and its script at the path of an inline one."""
    external = {v.name: str(stores[v.secret]) for v in pod.declared if v.secret in stores}
    secrets = {name: external.get(name, source) for name, source in normalized.secrets.items()}
    path = started(pod) if alone else ""
    if path not in normalized.files:
        return replace(normalized, secrets=secrets)
    files = {SCRIPT if name == path else name: text for name, text in normalized.files.items()}
    modes = {
        name: mode for name, mode in normalized.modes.items() if name != path
    }  # it is only read
    program = replace(normalized.program, path=SCRIPT)
    return replace(normalized, secrets=secrets, files=files, modes=modes, program=program)


def _as_spec_fields(
    manifests: Sequence[Manifest],
    workload: Manifest,
    pods: Pods,
    used: frozenset[tuple[str, str]],
) -> Iterator[tuple[str, Data]]:
    """Yield each object by kind; of a second one what differs, as a rendered run has only one."""
    by_kind: dict[str, list[dict[str, Data]]] = {}
    for manifest in manifests:
        kind, body = manifest.identity[:2], manifest.body
        rest: dict[str, Data] = {}
        if kind == _MONITOR:
            rest = monitors.remainder(body, pods.first_of_each, workload)
        elif kind == _FETCHED:
            rest = fetched.remainder(body, used)
        elif kind == _CONFIG and _is_script(manifest, pods[0]):
            of_each = pods.first_of_each
            mounts = [mount for pod in of_each for mount in pod.mounts if is_of_script(mount, pod)]
            locked = all(mount.read_only for mount in mounts)
            rest = {"immutable": body.get("immutable"), "readOnly": locked}
        if rest:
            labels = {k: v for k, v in manifest.labels.items() if k != RUN}
            rest |= {"labels": labels, "annotations": manifest.annotations}
            by_kind.setdefault(manifest.kind, []).append(stated(rest))
    for name, (first, *others) in by_kind.items():
        yield f"{name}/run", first
        for number, entry in enumerate(others, 2):
            more = {key: value for key, value in entry.items() if first.get(key) != value}
            if more:
                yield f"{name}/run-{number}", more
