"""Variables: whether those in command lines are defined, and whether each has just one value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from trainwright.datatypes.data import mappings, sequence, text
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import SERVED
from trainwright.objects.pods.launchers import set_variables
from trainwright.objects.pods.launching import SHELLS
from trainwright.objects.pods.references import known_as
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

_REFERENCE = re.compile(r"\$?\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_OF_SERVICES = re.compile(r".*_(?:SERVICE_HOST|SERVICE_PORT(?:_.*)?|PORT(?:_.*)?)", re.DOTALL)


@warning("TW307", about=("$(",), spec=Pointer("/entrypoint"), per_pod=True)
def undeclared_variable(subject: Subject) -> Iterator[Hit]:
    given = _given(subject)
    for template in subject.pod_templates:
        for container in template.containers:
            if not _is_known(container, template):
                continue
            for name in dict.fromkeys(_referred(container)):
                if name not in container.variables and not name.startswith(given):
                    message = f"$({name}) names no variable of {container.name!r}"
                    job = subject.job_of(template) if container is template.main else None
                    at, remedy = _place(f"$({name})", job), _of_launcher(name, job)
                    remedy = remedy or (_SHELL_ONLY if job and name.islower() else "")
                    yield Hit(container.pointer, message, at, remedy=remedy)
            yield from _in_values(container, given)


def _given(subject: Subject) -> tuple[str, ...]:
    """Return the prefixes of the variables that the object's operator sets."""
    served = SERVED.get(subject.kind)
    return served.variables if served else ()


def _place(written: str, job: Job | None) -> Pointer:
    """Return where a job has a text in its command line."""
    holders = {"flags": job.flags, "launcherOptions": job.launcher_options} if job else {}
    for field, options in holders.items():
        for key, value in options.items():
            if written in str(value):
                return Pointer.of(field, key)
    for field in ("argv", "args"):
        for index, word in enumerate(getattr(job.entrypoint, field) if job else ()):
            if written in word:
                return Pointer.of("entrypoint", field, index)
    return Pointer("/entrypoint")


def _of_launcher(name: str, job: Job | None) -> str:
    """Return what to do with a variable that a job's launcher sets for its processes, or ""."""
    if job is None or name not in set_variables(job):
        return ""
    return f"Leave it out: {job.launcher} sets {name} for each process, which reads it by itself."


def _is_known(container: Container, template: PodTemplate) -> bool:
    """Whether all variables of a container can be seen."""
    return not template.partial and not sequence(container.body.get("envFrom"))


def _in_values(container: Container, given: tuple[str, ...]) -> Iterator[Hit]:
    """Yield a hit for each $(NAME) in a variable's value that refers to none declared above it, nor
    to one with a `given` prefix.
    """
    above: set[str] = set()
    for index, entry in enumerate(container.env):
        own = text(entry.get("name"))
        for name in dict.fromkeys(_references(text(entry.get("value")))):
            if name in above or (name.startswith(given) and name not in container.variables):
                continue
            at, spec = f"{container.pointer}/env/{index}/value", Pointer.of("env", own)
            if name == own:
                message = f"{own} refers to itself: $({name}) is not replaced"
            elif name in container.variables:
                message = f"{own} refers to $({name}), which is declared below it"
            else:
                message = f"$({name}) in {own} names no variable of {container.name!r}"
            yield Hit(at, message, spec)
        above.add(own)


def _references(word: str) -> Iterator[str]:
    """Yield the variables that a text refers to as $(NAME), except those of Services."""
    for match in _REFERENCE.finditer(word) if "$(" in word else ():
        if not match.group().startswith("$$") and not _OF_SERVICES.fullmatch(match.group(1)):
            yield match.group(1)


def _referred(container: Container) -> Iterator[str]:
    """Yield the variables in a command line, but not in a shell script: $() is a command there."""
    words = container.command_line
    shell = bool(words) and bool(SHELLS.fullmatch(words[0]))
    for index, word in enumerate(words):
        if shell and index and words[index - 1].startswith("-") and words[index - 1].endswith("c"):
            continue
        yield from _references(word)


# As a shell has a variable: in capitals, as OmegaConf's interpolations seldom are.
_OF_A_SHELL = re.compile(r"(?<![$\\])\$(?:\{([A-Z_][A-Z0-9_]*)\}|([A-Z_][A-Z0-9_]*)\b)")
# A reference with other braces: those of Helm, of OmegaConf, or of TorchX's macros.
_OTHER_BRACES = re.compile(r"(?<!\$)(?:\{\{ *(\w+\.\w+) *\}\}|\$\{(\w+\.\w+)\})")
_RUN_OF_SLURM = re.compile(r"[^%]*(%[jA])(?![A-Za-z%])[^%]*")  # in the names of its files
_HOME = re.compile(r"(?:[^~]*=)?(~(?:/.*)?)")
_COMMAND = re.compile(r"\$\([a-z]\w* [^()]*\)|`(?:hostname|date|whoami|pwd|nproc)(?: [^`]*)?`")
_SHELL_ONLY = (
    'Only a shell runs a command, as in `argv: [bash, -c, "…"]`; `${{ run.name }}` is another text '
    "in each run."
)
_IN_CONTAINER = "Write a path in the container, such as one below the `mountPath` of a volume."
# Hydra's overrides and keys with dots, whose program may read ${NAME} by itself.
_INTERPOLATED = re.compile(r"(?:[+~]*[A-Za-z_][\w.@/:-]*|--?[\w-]+\.[\w.-]+)=")


@warning("TW774", about=("$", "{{", "~", "%", "`"), spec=Pointer("/flags"), per_pod=True)
def reference_that_nothing_expands(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for container in template.trains:
            job = subject.job_of(template) if container is template.main else None
            for word in _as_they_are(container):
                name = word.partition("=")[0] if word.startswith("-") else "the command line"
                for written, meant in _unexpanded(word):
                    found = f"{written} in {name} is passed as it is"
                    told = _known(meant, container, job) or meant
                    at = _place(written, job)
                    yield _unread(Hit(container.pointer, found, at), meant, told, job)
                for written, remedy in _of_shells(word):
                    message = f"{written} in {name} is passed as it is: only a shell replaces it"
                    at = _place(written, job)
                    yield Hit(container.pointer, message, at, remedy=remedy if job else "")
            for index, entry in enumerate(container.env):
                own = text(entry.get("name"))
                for written, meant in _unexpanded(text(entry.get("value"))):
                    found = f"{written} in {own} is passed as it is"
                    value = f"{container.pointer}/env/{index}/value"
                    yield _unread(Hit(value, found, Pointer.of("env", own)), meant, meant, job)
                for written, remedy in _of_shells(text(entry.get("value"))):
                    message = f"{written} in {own} is passed as it is: only a shell replaces it"
                    value, spec = f"{container.pointer}/env/{index}/value", Pointer.of("env", own)
                    yield Hit(value, message, spec, remedy=remedy if job else "")


def _of_shells(word: str) -> Iterator[tuple[str, str]]:
    """Yield what only a shell replaces in a text, and what to write instead."""
    if home := _HOME.fullmatch(word) if "~" in word else None:
        yield home[1], _IN_CONTAINER
    for match in _COMMAND.finditer(word) if "$(" in word or "`" in word else ():
        yield match[0], _SHELL_ONLY


def _known(meant: str, container: Container, job: Job | None) -> str:
    """Return the reference for a variable that a job's container does not have, or ""."""
    name = _REFERENCE.fullmatch(meant)
    if job is None or name is None or name[1] in container.variables:
        return ""
    known = known_as(name[1])
    return f"${{{{ {known} }}}}" if known else ""


def _unread(hit: Hit, meant: str, told: str, job: Job | None) -> Hit:
    """Return a hit with what to write in place of a text that stays as it is, or that nothing is to
    be written.
    """
    name = _REFERENCE.fullmatch(meant)
    if name and (remedy := _of_launcher(name[1], job)):
        return replace(hit, remedy=remedy)
    remedy = f"Write `{told}`." if job and (told != meant or not name) else ""
    if job and name and not remedy and name[1] not in {**job.env, **job.secrets}:
        remedy = f"Write its value; or `{told}`, with {name[1]} under env."
    return replace(hit, message=f"{hit.message}; write {told}", remedy=remedy)


def _as_they_are(container: Container) -> Iterator[str]:
    """Yield the words of a command line that neither a shell nor Python reads as a program, nor
    Hydra as an override.
    """
    words = container.command_line
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        is_program = before.startswith("-") and not before.startswith("--") and before[-1] == "c"
        if not is_program and "\n" not in word and not _INTERPOLATED.match(word):
            yield word


def _unexpanded(word: str) -> Iterator[tuple[str, str]]:
    """Yield each reference of a text that stays as it is, and the one that is replaced."""
    for match in _OF_A_SHELL.finditer(word) if "$" in word else ():
        yield match[0], f"$({match[1] or match[2]})"
    for match in _OTHER_BRACES.finditer(word) if "{" in word else ():
        if known := known_as(match[1] or match[2]):
            yield match[0], f"${{{{ {known} }}}}"
    if of_slurm := _RUN_OF_SLURM.fullmatch(word) if "%" in word else None:
        yield of_slurm[1], "${{ run.name }}"


@error("TW740", about=("subPathExpr",), spec=Pointer("/volumes"), per_pod=True)
def undeclared_variable_in_path(subject: Subject) -> Iterator[Hit]:
    given = _given(subject)
    for template in subject.pod_templates:
        for container in template.containers:
            mounts = mappings(container.body.get("volumeMounts"))
            for index, mount in enumerate(mounts if _is_known(container, template) else ()):
                for name in dict.fromkeys(_references(text(mount.get("subPathExpr")))):
                    if name not in container.variables and not name.startswith(given):
                        at = f"{container.pointer}/volumeMounts/{index}/subPathExpr"
                        message = f"$({name}) names no variable of {container.name!r}"
                        volume = Pointer.of("volumes", text(mount.get("name")), "subPathExpr")
                        yield Hit(at, message, volume)


@error("TW751", about=("valueFrom",), spec=Pointer("/env"), per_pod=True)
def variable_with_two_values(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for container in (*template.containers, *template.ephemeral):
            for index, entry in enumerate(container.env):
                if entry.get("value") and entry.get("valueFrom") is not None:
                    name = text(entry.get("name"))
                    pointer = f"{container.pointer}/env/{index}"
                    message = f"{name} has a value, and one from elsewhere"
                    yield Hit(pointer, message, Pointer.of("env", name))


RULES = defined_in(globals())
