"""Launchers, which start the processes of a node: the options of each, and who sets them.

The options, in launchers.json, are those of torch 2.13 (torch.distributed.run), accelerate 1.15
(accelerate launch), DeepSpeed 0.19 (deepspeed.launcher.launch, which the command `deepspeed` starts
on each node) and our own entrypoint, with --ray too; tests hold them against the parsers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job

SWITCH, TEXT, NUMBER = "a switch", "text", "a number, 0 or more"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, as an option takes it."""

    least: int
    most: int | None = None

    def __str__(self) -> str:
        return (
            f"a whole number, {self.least} {'or more' if self.most is None else f'to {self.most}'}"
        )

    def takes(self, text: str) -> bool:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
        return number is not None and self.least <= number <= (self.most or number)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text that the launcher itself takes apart."""

    called: str
    pattern: re.Pattern[str]

    def __str__(self) -> str:
        return self.called

    def takes(self, text: str) -> bool:
        return bool(self.pattern.fullmatch(text))


Takes: TypeAlias = str | tuple[str, ...] | Whole | Spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A launcher of processes. `options` are those that a job may set, by name with dashes, and
    what each takes: a type of value, or a choice of words. `decided` maps options that a job cannot
    set to the job's fields that decide them. `separator` joins the words of an option's name.
    """

    name: str
    options: Mapping[str, Takes] = field(default_factory=dict)
    decided: Mapping[str, str] = field(default_factory=dict)
    separator: str = "-"

    def words(self, options: Mapping[str, Data]) -> Iterator[str]:
        """Yield options as arguments, sorted by name."""
        for name in sorted(options):
            value, written = options[name], plain(name).replace("-", self.separator)
            if self.options.get(plain(name)) != SWITCH:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                yield f"--{written}={text}"
            elif value:
                yield f"--{written}"

    def has(self, name: str) -> bool:
        """Whether an option is one of the launcher, set by a job or decided for it."""
        return plain(name) in self.options or plain(name) in self.decided

    def problem(self, name: str, value: Data) -> tuple[str, str]:
        """Return what is wrong with an option, and the remedy; both empty if it is right."""
        option = plain(name)
        if option in self.decided:
            by = self.decided[option]
            remedy = "Remove it." if by.startswith("the target") else f"Remove it; set {by}."
            return f"{name} of {self.name} follows from {by}", remedy
        takes = self.options.get(option)
        if takes is None:
            meant = get_close_matches(option, self.options, n=1)
            hint = f"Did you mean {meant[0]}?" if meant else _elsewhere(name)
            return f"{name} is not an option of {self.name}", hint
        unknown = _RANK.search(str(value)) or (
            _OF_A_SHELL.search(str(value)) if option.startswith("rdzv") else None
        )
        if unknown:
            message = f"{name} refers to {unknown[1]}, which nothing sets before {self.name} starts"
            meets = option.startswith(("rdzv", "main-process"))
            why = ": the target tells the launcher where the nodes meet" if meets else ""
            return message, f"Remove it{why}."
        if not _fits(takes, value):
            expected = f"one of {', '.join(takes)}" if isinstance(takes, tuple) else str(takes)
            return f"{name} of {self.name} takes {expected}", "Correct the value."
        return "", ""


def _elsewhere(name: str) -> str:
    """Return where an option is written that the launcher of a job does not have."""
    others = [other.name for other in LAUNCHERS.values() if plain(name) in other.options]
    program = f"An option of the program is written under flags: `flags: {{{name}: …}}`."
    return f"It is one of {' and '.join(others)}: write it as launcher." if others else program


def plain(name: str) -> str:
    """Return the name of an option with dashes."""
    return name.replace("_", "-")


def _fits(takes: Takes, value: Data) -> bool:
    if takes == SWITCH:
        return isinstance(value, bool)
    if isinstance(takes, tuple):
        return str(value) in takes
    if isinstance(takes, str):
        return takes != NUMBER or _is_number(str(value))
    return not isinstance(value, bool) and takes.takes(str(value))


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def _words(words: str) -> Spelled:
    """Return the format of one of several words, in upper or lower case, or its number from 1."""
    names = words.split()
    any_of = "|".join(names)
    return Spelled(
        f"one of {', '.join(names)}",
        re.compile(f"{any_of}|[1-{len(names)}]", re.IGNORECASE),
    )


# What options take, by the names that these have in launchers.json.
_SORTS: Mapping[str, Takes] = {
    "switch": SWITCH,
    "text": TEXT,
    "number": NUMBER,
    "count": Whole(0),
    "positive": Whole(1),
    "port": Whole(1, 65535),
    "0 to 3": Whole(0, 3),
    "size": Spelled("a size such as 8Gi", re.compile(r"\d++(?:\.\d++)?(?:|k|[MGTPE]|[KMGTPE]i)")),
    "amount": Spelled(NUMBER, re.compile(r"(\d++(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?")),
    "streams": Spelled(
        "0 to 3 (1 stdout, 2 stderr, 3 both) for all ranks, or for some: 0:3,1:1",
        re.compile(r"[0-3]|\d:[0-3](,\d:[0-3])*"),
    ),
    "ranks": Spelled("ranks with commas between them: 0,1", re.compile(r"\s*\d+\s*(,\s*\d+\s*)*")),
    "devices": Spelled("one of none, cpu, nvme", re.compile("none|cpu|nvme")),
}


def _launcher(name: str, written: Mapping[str, Data]) -> Launcher:
    """Return a launcher from its entry in launchers.json, where blanks separate names."""
    options: dict[str, Takes] = {
        option: _SORTS[sort]
        for sort, lines in written.get("options", {}).items()
        for option in " ".join(lines).split()
    }
    options |= {key: tuple(words.split()) for key, words in written.get("words", {}).items()}
    options |= {key: _words(words) for key, words in written.get("wordsOrNumbers", {}).items()}
    decided = written.get("decided", {})
    return Launcher(
        name=name,
        options=options,
        decided={option: by for by, names in decided.items() for option in names.split()},
        separator=written.get("separator", "-"),
    )


LAUNCHERS: Mapping[str, Launcher] = {
    name: _launcher(name, written)
    for name, written in json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    ).items()
}


def own_options(job: Job) -> tuple[str, ...]:
    """Return the launcher options that a job sets, as words of a command line."""
    return tuple(LAUNCHERS[job.launcher].words(job.launcher_options))


# What launchers set for each process.
RANKS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
_RANK = re.compile(rf"\$[({{]?({'|'.join(sorted(RANKS))})\b")
_OF_A_SHELL = re.compile(r"\$\{?([A-Za-z_]\w*)")
# What torchrun, and our entrypoint as it does, read in place of options about nodes.
_NODES = frozenset(
    f"PET_{option.upper().replace('-', '_')}"
    for option in (*LAUNCHERS["torchrun"].decided, "rdzv-endpoint")
)


def set_variables(job: Job) -> frozenset[str]:
    """Return the variables that a job cannot set, as its launcher sets them, or is started by them.

    A program that no launcher starts is given its ranks by variables, of the job or the target.
    """
    launched = job.entrypoint.launched and job.launcher != "python"
    return RANKS | _NODES if launched else frozenset()
