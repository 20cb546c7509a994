"""What in the command of a job contradicts itself: its entrypoint, launcher and flags."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import PurePosixPath

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.job import FlagStyle, Job
from trainwright.datatypes.listing import article
from trainwright.datatypes.pointer import Pointer
from trainwright.findings import diagnostics as dx
from trainwright.objects.pods import command, shm
from trainwright.objects.pods.command import starts_runtime
from trainwright.objects.pods.flags import DASHES, misplaced, unfit_style
from trainwright.objects.pods.launchers import LAUNCHERS, plain
from trainwright.objects.pods.launching import SHELLS
from trainwright.specs.merge import BUILT_IN, Layered


def problems(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield everything in the command of a job that contradicts itself."""
    yield from _preflight(job, spec)
    yield from _flags(job, spec)
    yield from _command_in_one_word(job, spec)
    yield from _script(job, spec)
    yield from _started_as_script(job, spec)
    yield from _dashes(job, spec)
    yield from _launcher_options(job, spec)
    yield from _object_store(job, spec)


def _preflight(job: Job, spec: Layered) -> Iterator[Finding]:
    if job.preflight and not starts_runtime(job):
        message = "preflight is the entrypoint's, and this job does not start it"
        remedy = f"Use launcher: trainwright without entrypoint.{_kind(job)}, or remove preflight."
        yield spec.finding(dx.CONTRADICTION, Pointer("/preflight"), message, remedy=remedy)


# What a file's name hardly has: options, scripts behind a program, and what only a shell reads.
_COMMAND_LINE = re.compile(r"\s-|&&|\|\||;|\s\S{1,200}\.(?:py|sh)\b")


def _command_in_one_word(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding for a command line, or a file, as the first word of a command, which is a
    program.
    """
    argv, word = job.entrypoint.argv, next(iter(job.entrypoint.argv), "")
    is_file = word.endswith((".py", ".sh")) and "/" not in word  # which PATH does not have
    is_option = word.startswith("-")
    if not (is_file or is_option or _COMMAND_LINE.search(word)):
        return
    from trainwright.documents.validation import other_forms, translation  # only mistakes need it

    fields = other_forms.entrypoint(word) if len(argv) == 1 else None
    if (is_file or is_option) and not _COMMAND_LINE.search(word):
        fields = other_forms.entrypoint([*argv])
    remedy = "Write each of its words as an item of its own."
    if is_option:
        remedy = "Write the program in front of its options."
    yield spec.finding(
        dx.CONTRADICTION,
        Pointer("/entrypoint/argv/0"),
        "the first word of entrypoint.argv is a program, and not a command line, a script or an "
        "option",
        remedy=translation.written(fields) or remedy,
        effect="The container never starts, as there is no program of that name.",
    )


_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_FILE = re.compile(r"\S+\.py")
_UNREAD = (".sh", ".bash", ".ipynb")  # by Python


def _script(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding for a script that Python cannot read, or for what is none."""
    started = job.entrypoint
    script, field, message, meant = PurePosixPath(started.script), "script", "", dict[str, object]()
    args = {"args": [*started.args]} if started.args else {}
    if _FILE.fullmatch(started.inline.strip()):
        field, message = "inline", "inline is the text of a program, and not the name of its file"
        meant = {"script": started.inline.strip(), **args}
    elif script.suffix == ".ipynb":
        message = f"a script is read by Python, and {script} is a notebook"
        meant = {"script": str(script.with_suffix(".py")), **args}
    elif script.suffix in _UNREAD:
        message = f"a script is read by Python, and {script} is a shell's"
        meant = {"argv": ["bash", str(script), *started.args]}
    elif _MODULE.fullmatch(started.script) and not script.suffix.startswith(".py"):
        message = f"a script is a file, and {script} is named as a module is"
        meant = {"module": started.script, **args}
    if not message:
        return
    from trainwright.documents.validation import translation  # only mistakes need it

    remedy = translation.written({"entrypoint": meant})
    if script.suffix == ".ipynb":
        remedy = f"Convert it: `jupyter nbconvert --to script {script}`. {remedy}"
    if "argv" in meant and spec.setter(Pointer("/launcher")).label != BUILT_IN:
        remedy += " Leave out launcher."
    effect = "The program ends at its first line."
    yield spec.finding(
        dx.CONTRADICTION, Pointer.of("entrypoint", field), message, remedy=remedy, effect=effect
    )


# What starts processes on all nodes by itself, for which a target is there.
_OF_CLUSTERS = frozenset({"mpirun", "mpiexec", "horovodrun", "srun", "sky", "torchx"})


def _started_as_script(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding for a launcher or an interpreter in place of the script that it starts."""
    word, args = job.entrypoint.script, [*job.entrypoint.args]
    starts = LAUNCHERS.get(command.parse((word, "launch", "x")).launcher)
    launcher = "torchrun" if word in _OF_CLUSTERS else starts.name if starts else ""
    if not (launcher or command.is_python(word) or SHELLS.fullmatch(word)):
        return
    from trainwright.documents.validation import other_forms, translation  # only mistakes need it

    file = next((index for index, arg in enumerate(args) if arg.endswith(".py")), len(args))
    began = args[file:] if word in _OF_CLUSTERS else [word, *args]
    fields = {**(other_forms.entrypoint(began) or {}), **_with(launcher)}
    lacks_file = not args or (launcher and "argv" in fields["entrypoint"])
    if lacks_file:
        fields = {"entrypoint": {"script": "train.py"}, **_with(launcher)}
    remedy = translation.written(fields)
    yield spec.finding(
        dx.CONTRADICTION,
        Pointer("/entrypoint/script"),
        f"{word} is what starts a program, and entrypoint.script is the program itself",
        remedy=f"{remedy[:-1]}, with the name of your program's file." if lacks_file else remedy,
        effect="Python finds no file of that name.",
    )


def _with(launcher: str) -> dict[str, Data]:
    return {"launcher": launcher} if launcher else {}


_DASHED = re.compile(
    rf"(?P<dashes>-?[{DASHES}][-{DASHES}]*)(?P<rest>(?:[A-Za-z][\w.-]*(?:=.*)?|\.?\d.*))"
)


def _dashes(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding for each option or number that begins with another sign than a hyphen."""
    for at, value in _texts(job):
        match = _DASHED.fullmatch(value)
        if match is None:
            continue
        rest, sign = match["rest"], next(sign for sign in match["dashes"] if sign != "-")
        is_option = rest[:1].isalpha()
        if is_option and at.parts[0] != "entrypoint":  # a value, such as a dash before a word
            continue
        name, named = rest.partition("=")[0], unicodedata.name(sign).lower()
        meant = f"{'--' if is_option and len(name) > 1 else '-'}{rest}"
        is_number = at.parts[0] != "env" and not is_option
        shown = meant if is_number else f'"{meant}"'
        yield spec.finding(
            dx.CONTRADICTION,
            at,
            f"{value} begins with {article(named)} (U+{ord(sign):04X}), and not with the hyphen "
            "of a keyboard",
            remedy=f"Write `{shown}`.",
            effect="The program refuses it, or reads it as a text.",
        )


def _texts(job: Job) -> Iterator[tuple[Pointer, str]]:
    """Yield the texts of a job's command line and of its variables, with where each is."""
    for field in ("argv", "args"):
        for index, word in enumerate(getattr(job.entrypoint, field)):
            yield Pointer.of("entrypoint", field, index), word
    for field, options in (
        ("flags", job.flags),
        ("launcherOptions", job.launcher_options),
        ("env", job.env),
    ):
        for name, value in options.items():
            if isinstance(value, str):
                yield Pointer.of(field, name), value


def _launcher_options(job: Job, spec: Layered) -> Iterator[Finding]:
    launcher = LAUNCHERS[job.launcher]
    if job.launcher_options and (not job.entrypoint.launched or not launcher.options):
        what = "plain python has" if job.entrypoint.launched else f"entrypoint.{_kind(job)} starts"
        message = f"launcherOptions are those of a launcher, and {what} none"
        remedy = "Write them into entrypoint.argv, or choose a launcher."
        yield spec.finding(dx.CONTRADICTION, Pointer("/launcherOptions"), message, remedy=remedy)
        return
    seen: dict[str, str] = {}
    for name, value in job.launcher_options.items():
        message, remedy = launcher.problem(name, value)
        if (first := seen.setdefault(plain(name), name)) != name:
            message, remedy = f"{name} and {first} are one option", "Keep one of the two."
        if message:
            at = Pointer.of("launcherOptions", name)
            yield dx.CONTRADICTION.at(spec.key_origin(at), message, remedy=remedy, path=at)


def _object_store(job: Job, spec: Layered) -> Iterator[Finding]:
    """Ray keeps its objects in /dev/shm, and ends at its start where they do not fit."""
    if job.launcher != "ray" or not job.entrypoint.launched:
        return
    if job.shm == "none":
        message = "launcher: ray keeps its objects in /dev/shm, and shm is none"
        yield spec.finding(dx.CONTRADICTION, Pointer("/shm"), message, remedy="Set shm: auto.")
        return
    room = shm.size(job)
    for name, value in job.launcher_options.items():
        size = quantity.read(value) if plain(name) == "object-store-memory" else None
        if size and size > quantity.parse(room):
            message = f"{name} is {value}, but /dev/shm has {room}"
            at = Pointer.of("launcherOptions", name)
            remedy = "Lower it, or raise shm or resources.memory."
            yield spec.finding(dx.CONTRADICTION, at, message, remedy=remedy)


def _kind(job: Job) -> str:
    """Return the entrypoint's field that excludes a launcher: "image" or "argv"."""
    return "image" if job.entrypoint.image else "argv"


_HYDRA = FlagStyle(form="k=v")


_OTHER_FLAG = "Change it, or flagStyle."


def _flags(job: Job, spec: Layered) -> Iterator[Finding]:
    if reason := unfit_style(job.flag_style):
        at = Pointer("/flagStyle/booleans")
        remedy = "Remove booleans: the form k=v writes k=true and k=false."
        yield spec.finding(dx.CONTRADICTION, at, reason, remedy=remedy)
    for name, value in job.flags.items():
        if reason := misplaced(name, value, job.flag_style):
            at = Pointer.of("flags", name)
            form = job.flag_style.form
            message = f"{at.dotted} cannot be written as {form}: {reason}"
            hydra = not misplaced(name, value, _HYDRA)
            remedy = "Add `flagStyle: k=v`, the form of Hydra." if hydra else _OTHER_FLAG
            effect = "The program would refuse it, or read another value."
            yield spec.finding(dx.CONTRADICTION, at, message, remedy=remedy, effect=effect)
