"""Where a container saves: the folders that variables and options name, and their volumes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from posixpath import join, normpath

from trainwright.datatypes.data import Data, plain, text
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods.mounted import CHANGES_FOLDER
from trainwright.objects.pods.template import Container, PodTemplate, once


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable or a command line option, its value, and the pointer to it."""

    name: str  # in small letters, with underscores: output_dir
    value: str
    pointer: str
    shown: str  # as it is written

    @property
    def spec(self) -> Pointer:
        """The field of a job spec that usually has it."""
        return Pointer.of("env" if "/env/" in self.pointer else "flags", self.shown.lstrip("-"))


_OPTION = re.compile(r"-{0,2}([A-Za-z][\w.-]*)=(.*)", re.DOTALL)
_FLAG = re.compile(r"--([A-Za-z][\w.-]*)")


@once
def settings(container: Container) -> tuple[Setting, ...]:
    """Return the variables and options of a container, with those in scripts and configuration."""
    env = enumerate(container.env)
    variables = (
        _setting(text(entry.get("name")), text(entry.get("value")), f"{container.pointer}/env/{i}")
        for i, entry in env
    )
    return (*variables, *arguments(container), *_configured(container))


_KEY = re.compile(r"^([A-Za-z_][\w-]*):[ \t]{1,9}([^\s#].*)$", re.MULTILINE)
_COMMENT = re.compile(r"\s#")


def _configured(container: Container) -> Iterator[Setting]:
    """Yield the unindented keys of the configuration files that the training is given."""
    for path, content in container.configuration:
        for key, value in _KEY.findall(content):
            setting = _COMMENT.split(value, 1)[0].rstrip()
            yield _setting(key, setting, container.pointer, f"{key} in {path}")


@once
def arguments(container: Container) -> tuple[Setting, ...]:
    """Return the options of a container's command line."""
    return tuple(_arguments(container))


_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


@once
def variables(container: Container) -> dict[str, Setting]:
    """Return the variables of a container by name: its own, and those that its command line sets.

    Those set in a shell win: `export NAME=value`, or `NAME=value` in front of a command.
    """
    return {s.shown: s for s in settings(container) if _VARIABLE.fullmatch(s.shown)}


def _arguments(container: Container) -> Iterator[Setting]:
    given = words(container)
    for index, word in enumerate(given):
        if match := _OPTION.fullmatch(word):
            yield _setting(match[1], match[2], container.pointer, word.partition("=")[0])
        elif match := _FLAG.fullmatch(word):
            following = "".join(given[index + 1 : index + 2])
            value = "" if following.startswith("--") else following
            yield _setting(match[1], value, container.pointer, word)


def _setting(name: str, value: str, pointer: str, shown: str = "") -> Setting:
    return Setting(plain(name), value.rstrip(";&").strip("'\""), pointer, shown or name)


@once
def words(container: Container) -> tuple[str, ...]:
    """Return the words of a container's command line, with shell scripts split into their words."""
    return tuple(_words(container))


def _words(container: Container) -> Iterator[str]:
    for word in container.started:
        if " " not in word and "\n" not in word:
            yield word
        else:
            yield from _split(word)


_SPECIAL = re.compile(r"[\"'\\#]")


@lru_cache(maxsize=256)  # masters and workers mostly have the same script
def _split(script: str) -> tuple[str, ...]:
    """Split a script into words: at whitespace where nothing is quoted, as that is faster."""
    if not _SPECIAL.search(script):
        return tuple(script.split())
    try:
        return tuple(shlex.split(script, comments=True))
    except ValueError:  # a quote that is not closed, as in the text of a here-document
        return tuple(script.split())


# Settings that are about recomputing activations, or about reading what another run has saved.
_NOT_SAVED = re.compile(
    r"(?:^|_)(?:grad(?:ient)?|act(?:ivation)?s?|recompute|pretrained|load|loads|init|initial|resume"
    r"|restore|from|base|reference|teacher|use|no|skip|layers|activations)(?:_|$)|checkpointing"
)
_CHECKPOINT = re.compile(r"check_?point|ckpt")
_FOLDER = re.compile(
    r"(?:^|_)(?:check_?points?|ckpts?)_?(?:dir|path|folder|root|save|to|location|out|output)?s?$"
    r"|(?:^|_)(?:output|save|saving|results?)_?(?:dir|path|folder)$|(?:^|_)default_root_dir$|^save$"
)
# Parts of the names of all such settings, as `plain` spells them.
SAVING = ("checkpoint", "check_point", "ckpt", "output", "save", "saving", "result", "root_dir")
_OFF = frozenset({"no", "none", "false", "0", "off", "null"})


@once
def written(container: Container) -> str:
    """Return all text that `settings` searches: env, command line, configuration files."""
    env = (text(entry.get(key)) for entry in container.env for key in ("name", "value"))
    configured = (content for _, content in container.configuration)
    return "\n".join((*env, *container.started, *configured))


@once
def spelled(container: Container) -> str:
    """Return the same text in which settings are spelled alike, to look for parts of names in."""
    return plain(written(container))


@once
def saved(container: Container) -> tuple[Setting, ...]:
    """Return the folders into which a container saves, as far as their paths are known."""
    return tuple(at_paths(container, _saving_settings(container)))


def at_paths(container: Container, folders: Iterable[Setting]) -> Iterator[Setting]:
    """Yield the settings whose folder is known, with its absolute path as the value."""
    given = (replace(it, value=_folder(container, it)) for it in folders)
    return (setting for setting in given if setting.value.startswith("/"))


def saved_below_image_folder(container: Container) -> Iterator[Setting]:
    """Yield the relative folders into which a container saves from where only its image knows."""
    for setting in _saving_settings(container):
        if _is_relative(setting) and not _folder(container, setting).startswith("/"):
            yield setting


def saved_remotely(container: Container) -> Iterator[Setting]:
    """Yield the addresses, such as s3://bucket/run, to which a container saves."""
    return (setting for setting in _saving_settings(container) if _ADDRESS.match(setting.value))


def _saving_settings(container: Container) -> Iterator[Setting]:
    """Yield the options and variables whose names say that something is saved there."""
    text = spelled(container)
    if not any(part in text for part in SAVING):  # which takes a tenth of the time
        return
    for setting in settings(container):
        if _names_folder(setting.name) and not _NOT_SAVED.search(setting.name):
            yield setting


@lru_cache(maxsize=4096)  # programs have the same few options and variables
def _names_folder(name: str) -> bool:
    return _FOLDER.search(name) is not None


_ADDRESS = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://")

# A relative path, which may end in what Hydra or a shell fills in: outputs/${now:%H-%M}.
_RELATIVE = re.compile(r"[\w.][\w./-]*(?:\$.*)?")
_OF_FOLDER = re.compile(r"(?:^|_)(?:dir|folder|root)s?$")
_PATH = re.compile(r"(?:^|_)path$")
_WORD = frozenset({"true", "yes", "on", "auto", "default", "best", "last", "latest", *_OFF})
# What a hub has, in the form owner/name, and no folder that its first part tells to be one.
OF_HUB = re.compile(
    r"(?!(?:models?|data|datasets?|checkpoints?|outputs?)/)[A-Za-z0-9][\w.-]*/[\w.-]+"
)


def _is_relative(setting: Setting) -> bool:
    """Whether a value is a relative path: one word only as the value of `..._dir` and the like."""
    value, name = setting.value, setting.name
    if not _RELATIVE.fullmatch(value) or value.lower() in _WORD:
        return False
    if _OF_FOLDER.search(name):
        return True
    return "/" in value and bool(_PATH.search(name) or not OF_HUB.fullmatch(value))


def _folder(container: Container, setting: Setting) -> str:
    """Return the path of a value; a relative one is joined to where its program runs, if known."""
    known = _is_relative(setting) and (setting.name in OF_HYDRA or not _moved(container))
    folder = _starts_in(container) if known else ""
    return (
        normpath(join(folder, setting.value)) if folder else setting.value.removeprefix("file://")
    )


# Where Hydra puts what a run writes, and from where it runs by version_base: 1.1.
# https://hydra.cc/docs/configure_hydra/workdir/
OF_HYDRA = ("hydra_run_dir", "hydra_sweep_dir")


def _moved(container: Container) -> bool:
    """Whether Hydra may run the program in the folder of its run."""
    given = {setting.name: setting.value.lower() for setting in arguments(container)}
    changes = given.get("hydra_job_chdir", "" if given.keys().isdisjoint(OF_HYDRA) else "true")
    return changes == "true"


_FIRST = re.compile(
    r"(?:\s|;|&&|set\s+-\w+(?:\s+pipefail)?(?=\s|;))*+cd\s+([\w./-]+)(?=\s|;)(.*)", re.DOTALL
)


@once
def _starts_in(container: Container) -> str:
    """Return the folder in which the training is started, if it is known.

    It is workingDir, or the one to which a script changes before anything else.
    """
    folder = container.working_dir
    for script in container.started:
        match = _FIRST.fullmatch(script)
        folder = join(folder, match[1]) if match else folder
        if CHANGES_FOLDER.search(match[2] if match else script):
            return ""
    return folder if folder.startswith("/") else ""


_RESUMED = re.compile(r"(?:^|_)resume(?:_from)?(?:_checkpoint|_path|_dir)?$")


def read_from(container: Container) -> Iterator[Setting]:
    """Yield the settings that name what to resume from, by an absolute path or an address."""
    for setting in settings(container):
        there = setting.value.startswith("/") or _ADDRESS.match(setting.value)
        if there and _RESUMED.search(setting.name):
            yield setting


def saves(template: PodTemplate) -> bool:
    """Whether the settings of a training container say that it saves checkpoints."""
    return any(map(_saves, template.trains))


# Folders of a run, in which a trainer has its checkpoints beside what it logs. Of some, such as
# --model_dir, it is not sure that they are written to, so that no rule asks where they are.
_OF_TRAINERS = (
    *("work_dir", "workdir", "run_dir", "run_path", "exp_dir", "expdir", "exp_path"),  # OpenMMLab
    *("experiment_dir", "experiment_path", "experiments_dir", "out_dir", "outdir", "out_path"),
    *("out_folder", "output", "output_root", "model_dir", "model_output", "model_out"),  # timm
    *("snapshot_dir", "snapshot_path", "dump_path", "dump_dir", "job_dir", "train_dir"),  # DINO
    *("default_local_dir", "dirpath", "weights_dir", "artifacts_dir", "save_model", "save_to"),
)
_OF_TRAINER = re.compile(
    rf"(?:(?:sm|train|trainer|training|args|cfg|config|run|callbacks?)_)*(?:{'|'.join(_OF_TRAINERS)})"
)


def _saves(container: Container) -> bool:
    named = (
        s
        for s in settings(container)
        if _CHECKPOINT.search(s.name) or _FOLDER.search(s.name) or _OF_TRAINER.fullmatch(s.name)
    )
    return any(not _NOT_SAVED.search(s.name) and s.value.lower() not in _OFF for s in named)


def mount_at(container: Container, path: str) -> Mapping[str, Data] | None:
    """Return the innermost mount at a path, or None if it is on the container's own disk."""
    path = normal(path)
    around = [mount for mount in container.mounts if _within(path, text(mount.get("mountPath")))]
    return max(around, key=lambda mount: len(text(mount.get("mountPath"))), default=None)


normal = lru_cache(maxsize=4096)(normpath)  # containers mount at the same few paths


def _within(path: str, folder: str) -> bool:
    at = normal(folder) if folder else ""
    return bool(at) and (path == at or path.startswith(f"{at.rstrip('/')}/"))


def volume_of(template: PodTemplate, mount: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return the volume of a mount, or {} if the object creates it or has none of that name."""
    return _volumes(template).get(text(mount.get("name")), {})


@once
def _volumes(template: PodTemplate) -> dict[str, Mapping[str, Data]]:
    """The volumes of a pod by name; of duplicates the first one."""
    return {text(volume.get("name")): volume for _, volume in reversed(template.volumes)}
