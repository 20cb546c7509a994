"""TrainJob: what the minor version of Kubeflow Trainer accepts, and what never trains."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.data import dig, integer, mapping, mappings, text
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.trainjob import KIND
from trainwright.kinds.trainjob.runtime import patches, runtime_of
from trainwright.objects import forms
from trainwright.objects.pods.launching import launches
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import table

_EVERY = frozenset(range(4))
# The minor versions of Kubeflow Trainer 2 that know each field; all know the fields not listed.
_MINORS = {
    str(row.value): frozenset(minor for minor in _EVERY if row.holds(f"2.{minor}"))
    for name, row in table().items()
    if name.startswith("trainer/") and row.value and row.since
}
_ALWAYS = frozenset({"runtimeRef", "initializer", "trainer", "suspend", "managedBy"})


def installed_minor(environment: Environment) -> int | None:
    """Return the y of the cluster's Kubeflow Trainer 2.y, or None if it is not given."""
    options = environment.targets.get(KIND.name)
    parts = options.version.split(".") if options else []
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else None


def _fields_with_minors(subject: Subject) -> list[str]:
    return [field for field in subject.spec if field in _MINORS]


def minors(subject: Subject) -> frozenset[int]:
    """Return the minors the object can be for: the environment's, else all with its fields."""
    installed = installed_minor(subject.environment)
    if installed is not None:
        return frozenset({installed})
    return _EVERY.intersection(*(_MINORS[field] for field in _fields_with_minors(subject)))


def _versions(numbers: frozenset[int]) -> str:
    return " and ".join(f"2.{number}" for number in sorted(numbers))


@error("TW201", spec=Pointer("/target"))
def field_of_other_trainer_version(subject: Subject) -> Iterator[Hit]:
    installed = installed_minor(subject.environment)
    fields = _fields_with_minors(subject)
    if installed is not None:
        for field in fields:
            if installed not in _MINORS[field]:
                supported = _versions(_MINORS[field])
                message = (
                    f"{field} is a field of Trainer {supported}, the cluster has 2.{installed}"
                )
                yield Hit(f"/spec/{field}", message)
    elif not minors(subject):
        names = ", ".join(f"{field} ({_versions(_MINORS[field])})" for field in fields)
        yield Hit(f"/spec/{fields[-1]}", f"no version of Trainer has all of {names}")


@error("TW202", spec=Pointer("/procsPerNode"))
def num_proc_per_node_not_number(subject: Subject) -> Iterator[Hit]:
    number = dig(subject.spec, "trainer", "numProcPerNode")
    if number is None or integer(number) is not None:
        return
    possible = minors(subject)
    word = isinstance(number, str) and re.fullmatch("auto|cpu|gpu|[1-9][0-9]*", number)
    if not word or (possible and possible <= {2, 3}):
        message = f"numProcPerNode is {number!r}, it must be a whole number"
        yield Hit("/spec/trainer/numProcPerNode", message)


def runtime(subject: Subject) -> Manifest | None:
    """Return the runtime that a TrainJob refers to, or None if it is not among the objects."""
    return subject.around.named(*runtime_of(subject.manifest), subject.manifest.namespace)


# Words in the names of runtimes for frameworks other than PyTorch, upstream and elsewhere.
_OTHER_FRAMEWORKS = frozenset({"mpi", "deepspeed", "mlx", "flux", "jax", "xgboost", "horovod"})


def _by_torch(subject: Subject) -> bool:
    """Whether Trainer numbers the ranks with PET_* variables, as it does for torch only.

    A runtime that is not among the objects counts as one for torch, unless its name has another
    framework.
    """
    manifest = runtime(subject)
    if manifest is not None:
        return "torch" in mapping(manifest.spec.get("mlPolicy"))
    name = runtime_of(subject.manifest)[1]
    return _OTHER_FRAMEWORKS.isdisjoint(re.split(r"[-.]", name))


@error("TW203")
def missing_trainer(subject: Subject) -> Iterator[Hit]:
    if subject.spec.get("trainer") is None and _by_torch(subject):
        yield Hit("/spec", "there is no trainer, so no variable of torchrun is set")


@error("TW204", spec=Pointer("/name"))
def trainjob_name_too_long(subject: Subject) -> Iterator[Hit]:
    name = text(subject.metadata.get("name"))
    pods = [(KIND.container, 1), *((t.role, t.replicas) for t in subject.templates)]
    longest = max((f"{name}-{role}-0-{max(n - 1, 0)}-abcde" for role, n in pods), key=len)
    over = len(longest) - 63
    if name and over > 0:
        message = f'the pod "{longest}" would have {len(longest)} characters, {over} over 63'
        yield Hit("/metadata/name", message, form="long")
    elif name and (problem := forms.LETTER_FIRST.problem(name)):
        yield Hit("/metadata/name", f'"{name}" {problem}', form="invalid")


_RESERVED = frozenset(
    f"PET_{name}"
    for name in ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
)
_OWNED = frozenset({"node", "dataset-initializer", "model-initializer"})


@error("TW206", spec=Pointer("/env"))
def reserved_trainer_variable(subject: Subject) -> Iterator[Hit]:
    by_torch = _by_torch(subject)
    for index, entry in enumerate(mappings(dig(subject.spec, "trainer", "env"))):
        name = text(entry.get("name"))
        if name in _RESERVED and by_torch:
            yield Hit(f"/spec/trainer/env/{index}", f"{name} is set", spec=Pointer.of("env", name))
    for pointer, _, pod in patches(subject.spec):
        for container in mappings(dig(pod, "spec", "containers")):
            if text(container.get("name")) in _OWNED and container.get("env"):
                yield Hit(pointer, f"variables of the container {container['name']} are patched")


_ELSEWHERE = {
    "podGroupPolicy": "it belongs to the runtime",
    "mlPolicy": "it belongs to the runtime",
    "failurePolicy": "it belongs to template.spec of the runtime",
    "successPolicy": "it belongs to template.spec of the runtime",
    "ttlSecondsAfterFinished": "no version has it yet",
    "backoffLimit": "it belongs to the jobs of the runtime",
    "template": "it belongs to the runtime",
    "image": "it belongs under trainer",
    "command": "it belongs under trainer",
    "args": "it belongs under trainer",
    "env": "it belongs under trainer",
    "numNodes": "it belongs under trainer",
}


@error("TW210")
def runtime_field_in_trainjob(subject: Subject) -> Iterator[Hit]:
    for field in subject.spec:
        if field not in _ALWAYS and field not in _MINORS:
            where = _ELSEWHERE.get(str(field), "pods are changed by runtimePatches")
            yield Hit(f"/spec/{field}", f"unknown field {field} in a TrainJob: {where}")


@warning("TW213", spec=Pointer("/launcher"))
def missing_trainjob_launcher(subject: Subject) -> Iterator[Hit]:
    if not _by_torch(subject):
        return
    for template in subject.templates:
        processes = integer(dig(subject.spec, "trainer", "numProcPerNode")) or 1
        container = next((c for c in template.trains if c.name == "node"), None)
        if container is None or template.replicas * processes < 2:
            continue
        words, names = container.command_line, container.variables
        if words and not launches(words) and not {"RANK", "WORLD_SIZE"} <= set(names):
            message = f"{words[0]!r} gets only PET_*, which torchrun reads"
            yield Hit("/spec/trainer", message)


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")


@error("TW214")
def invalid_storage_uri(subject: Subject) -> Iterator[Hit]:
    if minors(subject) != {3}:
        return
    for which in ("dataset", "model"):
        uri = dig(subject.spec, "initializer", which, "storageUri")
        if isinstance(uri, str) and uri and not _URI.fullmatch(uri):
            pointer = f"/spec/initializer/{which}/storageUri"
            yield Hit(pointer, f"storageUri of the {which} has no scheme")


RULES = defined_in(globals())
