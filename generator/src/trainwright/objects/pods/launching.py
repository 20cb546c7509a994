"""What a container starts: launchers such as torchrun, their options for nodes and rendezvous."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import dropwhile, pairwise

from trainwright.objects.pods import command
from trainwright.objects.pods.template import Container, PodTemplate, once

# Launchers that start several processes a pod and read PET_*.
_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "deepspeed",
    "trainwright_runtime",
    "dlrover-run",
)
_TORCHRUN = re.compile(r"(?:^|[\s/;&|(])torchrun(?:$|\s)|torch\.distributed\.run\b")
_OPTION = re.compile(
    r"(?:^|\s)--(nnodes|nproc[-_]per[-_]node|rdzv[-_]endpoint|master[-_]addr|"
    r"num[-_](?:machines|processes|nodes|gpus|accelerators)|main[-_]process[-_]ip|world[-_]info|"
    r"hostfile|config[-_]file)(?:=|\s+)[\"']?([^\s\"';]+)"
)
# What accelerate and DeepSpeed call the options of torchrun.
_ALIKE = {
    "num-machines": "nnodes",
    "num-nodes": "nnodes",
    "num-gpus": "nproc-per-node",
    "num-accelerators": "nproc-per-node",
    "main-process-ip": "master-addr",
}
# Launchers that assume a single node unless an option says otherwise, at the start of a command.
_ALONE = re.compile(
    r"(?:^|[;&|(\n]|\bexec\s)\s{0,100}(?:[^\s;&|(]*/)?(?:python[\d.]*\s++(?:-u\s++)?-m\s++)?"
    r"(?:(?P<accelerate>accelerate\s+launch|accelerate-launch|accelerate\.commands\.launch)"
    r"|(?P<deepspeed>deepspeed(?:\.launcher\.(?:launch|runner))?))(?=\s|$)"
)
# Variables by which ranks find each other, in manifests to which no operator adds them.
_ADDRESSES = ("MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "TRAINWRIGHT_MASTER_ADDR")
_SUBSTITUTES = re.compile(r"\$\(|`|<<")  # of which no plain words can be read
_LOOPBACK = re.compile(
    r"\A(?:\w+://)?(?:localhost|127(?:\.\d+){3}|0\.0\.0\.0|\[?::1\]?)(?::\d*)?", re.IGNORECASE
)
SHELLS = re.compile(r"(?:.*/)?(?:ba|da|k|z)?sh")


def is_loopback(address: str) -> bool:
    """Whether a pod reaches only itself at an address."""
    return _LOOPBACK.fullmatch(address) is not None


def node_range(written: str) -> tuple[int, int] | None:
    """Return the fewest and the most nodes of torchrun's `--nnodes`, a number or `2:4`; None if
    they are not known.
    """
    match = _NODES.fullmatch(written)
    sizes = match and (int(match[1]), int(match[2] or match[1]))
    return sizes if sizes and 0 < sizes[0] <= sizes[1] else None


_NODES = re.compile(r"(\d{1,9})(?::(\d{1,9}))?", re.ASCII)


@lru_cache(maxsize=1024)  # many rules need it of the same container
def launches(words: tuple[str, ...]) -> bool:
    """Whether any word of a command line (shell scripts included) starts a launcher."""
    return any(launcher in word for word in words for launcher in _LAUNCHERS)


def torchruns(container: Container) -> bool:
    """Whether a container starts torchrun, by itself or in a shell line."""
    return any("torch" in word and _TORCHRUN.search(word) for word in container.started)


@once
def options(container: Container) -> dict[str, str]:
    """Return the launcher's options for nodes, processes and rendezvous, named as torchrun names
    them, with dashes.
    """
    pairs = _OPTION.findall(launched(container))
    given = {name.replace("_", "-"): value for name, value in pairs}
    return {**{_ALIKE[name]: given[name] for name in _ALIKE.keys() & given}, **_counted(given)}


@once
def launched(container: Container) -> str:
    """Return what a container starts, without the arguments of the program that a launcher starts:
    these are the program's own, whatever they are called.
    """
    words, line = container.started, container.command_line
    if not any("--" in word for word in words):
        return ""
    return " ".join([*_until_program(line), *_until_program(words[len(line) :])])


def _until_program(words: Sequence[str]) -> Iterator[str]:
    for word in words[: _program(words)]:
        lines = [*_commands(word)] if " --" in word and not _SUBSTITUTES.search(word) else []
        if any(_program(line) for line in lines):
            yield from (part for line in lines for part in _until_program(line))
        else:
            yield word


def _program(words: Sequence[str]) -> int | None:
    """Return where the program stands that a launcher starts; None if none is shown."""
    for at in range(len(words)):  # behind wrappers, such as exec
        read = command.parse(tuple(words[at:]))
        if read.program is not None:
            return at + read.program if read.launcher != "none" else None
    return None


def _counted(given: dict[str, str]) -> dict[str, str]:
    """Return the options with the processes per node that accelerate's imply."""
    world, nodes = given.get("num-processes", ""), given.get("num-machines", "1")
    if world.isdigit() and nodes.isdigit() and int(nodes) and int(world) % int(nodes) == 0:
        return {"nproc-per-node": str(int(world) // int(nodes)), **given}
    return given


@once
def alone(container: Container) -> str:
    """Return the container's launcher if it knows of other nodes only by options; else empty."""
    words = container.started
    scripts = [word for word in words if " " in word]
    matches = (_ALONE.search(text) for text in (" ".join(words), *scripts))
    return next((match.lastgroup or "" for match in matches if match), "")


@once
def addresses(container: Container) -> list[str]:
    """Return the rendezvous addresses that a container's options and variables spell out."""
    given = options(container)
    addresses_given = [given.get(name, "") for name in ("master-addr", "rdzv-endpoint")]
    return [a for a in (*addresses_given, *map(container.variables.get, _ADDRESSES)) if a]


def is_training(template: PodTemplate) -> bool:
    """Whether pods appear to train: they request accelerators, or start ranks, also elsewhere."""
    return bool(template.accelerators) or any(
        launches(c.started) or starts_elsewhere(c.started) for c in template.trains
    )


MPI = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "horovodrun"})


def starts_elsewhere(words: tuple[str, ...]) -> bool:
    """Whether a command line, or the script in it, starts ranks in other pods, as mpirun does."""
    return any(_name(part) in MPI for word in words for part in word.split())


def trains_together(template: PodTemplate) -> bool:
    """Whether the pods of a template are ranks of one training, rather than independent of each
    other.
    """
    return template.replicas > 1 and any(
        launches(container.started) or any(name in container.variables for name in _ADDRESSES)
        for container in template.trains
    )


# --- what a shell script starts -------------------------------------------------------------------

# Programs that start ranks, beside those that read PET_*.
_STARTERS = frozenset(
    ("torchrun", "accelerate", "deepspeed", "dlrover-run", "composer", "colossalai", "tune")
    + ("mpirun", "mpiexec", "horovodrun", "llamafactory-cli", "axolotl")
)
_PYTHON = re.compile(r"python[\d.]*")
_TRAINS = re.compile(r"train|tun(?:e|ing)", re.IGNORECASE)  # "pretrain.sh", "run_finetuning"
# Modules of Python that are tools: "python -m pip install" trains nothing.
_TOOLS = frozenset({"pip", "venv", "ensurepip", "http.server", "json.tool", "compileall"})
# Programs that start the one which is named behind their own options.
_WRAPPERS = frozenset(
    ("env", "time", "timeout", "nohup", "nice", "numactl", "taskset", "stdbuf", "sudo", "command")
    + ("nsys", "ncu", "if", "then", "else", "do", "while", "!", "{", "exec")
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NOT_IN_PROGRAMS = re.compile(r"[^\w.-]+")
_COMMENT = re.compile(r"^[ \t]*#.*$|(?<=[ \t])#[^\"'\n]*$", re.MULTILINE)
_BETWEEN = ";&|()\n"


# What starts several processes in a script, or tells each its rank; modules that start others.
_RANKS_BY_HAND = re.compile(
    r"(?<![&>])&(?![&>\d])|\b(?:for|while|until|xargs|parallel)\s|\b(?:LOCAL_)?RANK=|\bWORLD_SIZE="
    r"|\s-m\s+(?:composer|axolotl|colossalai|horovod|llamafactory|lightning)\b"
)


def script_trains(script: str) -> bool:
    """Whether a shell script starts a training, judging by its text."""
    return any(map(_starts, _commands(script)))


def starts_ranks(words: tuple[str, ...]) -> bool:
    """Whether a command line, or the script in it, names a program that starts ranks."""
    return any(_name(part) in _STARTERS for word in words for part in word.split())


def training_program(words: tuple[str, ...]) -> str:
    """Return the script or module in a command line whose name tells that it trains; or ""."""
    names = _NOT_IN_PROGRAMS.split(_COMMENT.sub("", " ".join(words)))
    for before, name in pairwise(["", *names]):
        if _TRAINS.search(name) and (before == "-m" or name.endswith((".py", ".sh"))):
            return name
    return ""


def failure_is_lost(script: str) -> str:
    """Return what makes a script exit with 0 after a failed training, or "" if nothing does."""
    script = _REDIRECTED.sub(" ", _SUBSTITUTED.sub("x", script))
    if "$(" in script or "<<" in script:
        return ""
    steps = _steps(script)
    for index, (words, separator) in enumerate(steps):
        if not _starts(words) or words[0] in _CONDITIONS:
            continue
        after = [following for following, _ in steps[index + 1 :] if following]
        if any(following[0] in _CLOSING for following in after):
            return ""  # the exit status of a branch or a loop is not known
        if why := _lost(script, separator, after):
            return why
    return ""


_SUBSTITUTED = re.compile(r"\$\([^()\n]{0,500}\)")
_REDIRECTED = re.compile(r"\d?>&[-\d]|&>{1,2}|(?<=\|)&")
_CONDITIONS = ("if", "while", "until", "!", "elif")
_CLOSING = frozenset({"fi", "done", "esac", "}", "else", "elif", "then", "do"})
_HARMLESS = frozenset({"true", ":", "echo", "printf", "sleep"})
_ERREXIT = re.compile(
    r"(?:^|[\s;&])set\s{1,9}(?:-\w{1,9}\s{1,9}){0,3}-(?:\w{0,9}e|o\s{1,9}errexit)"
)
_STATUS = re.compile(r"\$\?|\$\{\?\}|PIPESTATUS|\btrap\b|\bwait\s{1,9}[-\"'$%\w]|\bexec\b")


def _lost(script: str, separator: str, after: list[list[str]]) -> str:
    """Return what hides the failure of a command before a separator and other commands, or ""."""
    following = after[0] if after else []
    if separator == "||" and following:
        harmless = following[0] in _HARMLESS or following[:2] == ["exit", "0"]
        return f"|| {' '.join(following[:2])}" if harmless else ""
    if separator == "|" and following and "pipefail" not in script:
        return "" if "PIPESTATUS" in script else f"| {following[0]}"
    if separator == "&" and ["wait"] in after and not _STATUS.search(script):
        return "& and wait without the number of the process"
    on = separator in (";", "") and following and not _ERREXIT.search(script)
    if on and not _STATUS.search(script) and "exit" not in (words[0] for words in after):
        return f"a command behind it, {following[0]}"
    return ""


@lru_cache(maxsize=256)  # several rules ask, and masters and workers mostly have the same script
def _steps(script: str) -> tuple[tuple[list[str], str], ...]:
    """Return each simple command's words and the operator after it, empty at a line's end."""
    return tuple(_each_step(script))


def _each_step(script: str) -> Iterator[tuple[list[str], str]]:
    words: list[str] = []
    for token in _tokens(_COMMENT.sub("", script.replace("\\\n", " "))):
        if token.strip(_BETWEEN):
            words += [token] if words or not _ASSIGNMENT.fullmatch(token) else []
        else:
            yield words, token.strip("()\n")
            words = []
    yield words, ""


def plain_python(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of Python by which a command line, or the script in it, trains; empty
    where the words show a launcher, several processes at once, or no program.
    """
    if launches(words) or starts_ranks(words) or _RANKS_BY_HAND.search(" ".join(words)):
        return ()
    scripts = [word for word in words[1:] if SHELLS.fullmatch(words[0]) and " " in word]
    lines = [line for script in scripts for line in _commands(script)] or [list(words)]
    python = [
        tuple(dropwhile(lambda word: not command.is_python(word), line))
        for line in lines
        if _starts(line)
    ]
    shown = python and all(command.parse(line).program is not None for line in python)
    return python[-1] if shown else ()


@once
def training_commands(container: Container) -> tuple[tuple[str, ...], ...]:
    """Return the commands of a container that start a training, by itself or in a script."""
    scripts = [word for word in container.started if " " in word or "\n" in word]
    lines = [command for script in scripts for command in _commands(script)]
    return tuple(tuple(line) for line in (lines or [list(container.started)]) if _starts(line))


_PROCESSES = "PET_NPROC_PER_NODE"


def starts_one_process(container: Container) -> bool:
    """Whether a container starts torchrun, and nothing tells that how many processes to start."""
    if container.env_from or any(_PROCESSES in text for text in container.started):
        return False
    if _PROCESSES in container.variables:
        return False
    return any(map(_is_plain_torchrun, training_commands(container)))


def _is_plain_torchrun(words: tuple[str, ...]) -> bool:
    read = command.parse(words)
    if read.launcher != "torchrun" or read.program is None:
        return False
    unknown = any("$" in word for word in words[: read.program + 1])
    return "nproc-per-node" not in read.options and not unknown


def training_is_followed(script: str) -> bool:
    """Whether a script has commands after the last one that trains."""
    starts = [_starts(words) for words in _commands(script) if words]
    return True in starts and not starts[-1]


def _commands(script: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, without leading variable assignments."""
    return (words for words, _ in _steps(script))


_QUOTED = re.compile(r"[\"'\\]")
_TOKEN = re.compile(rf"[{re.escape(_BETWEEN)}]+|[^{re.escape(_BETWEEN)} \t\r]+")


def _tokens(script: str) -> list[str]:
    """Return the words of a script, and the signs between its commands."""
    if not _QUOTED.search(script):  # the lexer takes a hundred times as long
        return _TOKEN.findall(script)
    lexer = shlex.shlex(script, posix=True, punctuation_chars=_BETWEEN)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, as in the text of a here-document
        return [
            token for token in re.split(rf"([{re.escape(_BETWEEN)}])|[ \t\r]+", script) if token
        ]


def _name(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def _starts(words: list[str]) -> bool:
    """Whether a command, or the one that it wraps, starts a training."""
    for index, word in enumerate(words):
        name, rest = _name(word), words[index + 1 :]
        if _is_training(name, rest):
            return True
        wrapped = words[0] in _WRAPPERS
        if not wrapped:
            return False
    return False


def _is_training(name: str, arguments: list[str]) -> bool:
    if name in _STARTERS:
        return True
    if _PYTHON.fullmatch(name):
        return _python_trains(arguments)
    if SHELLS.fullmatch(name) or name in ("source", "."):
        name = next((_name(a) for a in arguments if not a.startswith("-")), "")
    return name.endswith((".sh", ".py")) and _TRAINS.search(name) is not None


def _python_trains(arguments: list[str]) -> bool:
    """Whether Python is given a program of the image's: a file, or a module that is not a tool."""
    for index, argument in enumerate(arguments):
        if argument == "-m":
            return arguments[index + 1 : index + 2] not in ([tool] for tool in _TOOLS)
        if not argument.startswith("-"):
            return _name(argument) != "setup.py"
        if argument == "-c":
            return False
    return False
