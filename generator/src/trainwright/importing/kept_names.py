"""Names of pods and services that differ in a rendered run, where nothing replaces them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainwright.datatypes.data import dig, mapping, text, texts
from trainwright.datatypes.groupkind import CONFIGMAP
from trainwright.datatypes.pointer import Pointer, scalars
from trainwright.importing import role_names
from trainwright.importing.equivalence.containers import places
from trainwright.importing.names import RANK0, Names, references
from trainwright.kinds.reading import Loss, NotImported, SourceObject, shown
from trainwright.objects.pods.pod import Pod, Workload


def staying(
    part: SourceObject,
    workload: Workload,
    services: Sequence[str],
    numbered: str,
    *,
    bare: bool,
) -> Iterator[NotImported]:
    """Yield texts that name pods or services of the workload in a way that nothing replaces.

    `numbered` is how the spec's target numbers the pods of a run. With `bare`, a word that is just
    the name of a compose file's service counts as well.
    """
    names, references_by_rank = Names.of(workload), references(numbered)
    beside = _beside(workload, names)
    patterns = [*_composed(workload), *_prefixes(names), *map(_called, services)]
    for pointer, value in scalars(part.body):
        if not isinstance(value, str) or not is_text(pointer):
            continue
        if is_variable(pointer) and names.is_run(value) and not beside:
            continue
        referring = role_names.referring(value, workload)
        rest = names.replaced(
            referring, lambda number: " " if references_by_rank.get(number) else ""
        )
        others = names.replaced(rest, lambda number: "\0" if number > 0 else "")
        mention = next((match[0] for p in patterns if (match := p.search(rest))), "")
        if "\0" in others:
            mention = "a pod of another rank than 0"
        reference = f"rank 0 as {RANK0}, or to the run as ${{{{ run.name }}}}"
        own = not workload.serving.keys().isdisjoint(pointer.parts)
        if role := role_names.staying(referring, workload, bare=bare and not own):
            mention = f"a pod of the role {role}"
            reference = f"all of its pods as ${{{{ roles.{role}.hosts }}}}"
        if mention:
            why = f"it names {mention}, which a rendered run calls otherwise: refer to {reference}"
            yield part.not_imported(pointer, value, why, Loss.CANNOT_RUN)


def _composed(workload: Workload) -> Iterator[re.Pattern[str]]:
    """Yield patterns of pods' names that a shell or the kubelet puts together: ${JOB}-node-0-0."""
    roles = "|".join(
        re.escape(role) for role in {group.role for group in workload.pods.groups} if role
    )
    if roles:
        yield re.compile(r"\$(?:\w+|\{\w+\}|\(\w+\))-(?:" + roles + r")(?:-0)?-\d+(?![\w-])")


def _prefixes(names: Names) -> Iterator[re.Pattern[str]]:
    """Yield patterns for prefixes of pod names that a script numbers, such as llm-workload-0-."""
    begun = {host.partition(".")[0].rpartition("-")[0] for host in names.hosts}
    for prefix in sorted(begun - {""}):
        above = prefix.rpartition("-")[0] if prefix.rpartition("-")[2].isdecimal() else ""
        either = "|".join(re.escape(text) for text in (prefix, above) if "-" in text)
        if either:
            yield re.compile(rf"(?<![\w./-])(?:{either})-(?![\w])")


def _called(service: str) -> re.Pattern[str]:
    return re.compile(rf"(?:(?<=://)|(?<![\w./-])){re.escape(service)}(?![\w-])")


def in_configs(others: Sequence[SourceObject], workload: Workload) -> Iterator[NotImported]:
    """Yield names of pods in ConfigMaps that variables are set from: these stay as they are."""
    names, pod = Names.of(workload), workload.training[0]
    for part in others:
        if part.group_kind != CONFIGMAP:
            continue
        config = text(part.metadata.get("name"))
        for key, value in texts(part.body.get("data")).items():
            if _is_read(pod, config, key) and names.replaced(value, lambda _: "\0") != value:
                at = Pointer.of("data", key)
                why = (
                    "a variable has it as its value, and it names a pod, which a rendered run "
                    f"calls otherwise: write it under env, with rank 0 as {RANK0}"
                )
                field, said = f"ConfigMap/{config}{at}", shown(key, value)
                yield NotImported(field, part.place(at), said, why, Loss.CANNOT_RUN)


def _is_read(pod: Pod, config: str, key: str) -> bool:
    """Whether a variable of a pod has the value of a key, unless the target sets it."""
    wanted = {"name": config, "key": key}.items()
    return any(
        not places(variable.name)
        and wanted <= mapping(variable.origin.get("configMapKeyRef")).items()
        for variable in pod.declared
    ) or (
        not places(key)
        and any(dig(source, "configMapRef", "name") == config for source in pod.env_from)
    )


def _beside(workload: Workload, names: Names) -> bool:
    """Whether a container other than the training one also has the run's name in a variable."""
    first = workload.training[0]
    others = (*first.before, *first.beside)
    return any(
        names.is_run(value) for container in others for value in container.variables.values()
    )


def is_variable(pointer: Pointer) -> bool:
    """Whether a pointer leads to the value of an environment variable."""
    return pointer.parts[-3:-2] == ("env",)


_TEXTS = frozenset({"command", "args", "env", "data"})


def is_text(pointer: Pointer) -> bool:
    """Whether a pointer leads to a text for programs, which may look up a name in it."""
    return not _TEXTS.isdisjoint(pointer.parts) and pointer.last != "name"
