"""Command lines: what is written is read again as what was meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given as examples
from hypothesis import strategies as st

from trainwright.datatypes.job import Entrypoint, Image, Job
from trainwright.objects.pods import command, flags
from trainwright.objects.pods.launchers import LAUNCHERS, NUMBER, SWITCH, Spelled, Takes, Whole

_WORD = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
_VALUE = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",)), max_size=8),
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
)
_FLAGS = st.dictionaries(_WORD, st.one_of(_VALUE, st.lists(_VALUE, max_size=3)), max_size=4)
_ENTRYPOINTS = st.one_of(
    st.builds(Entrypoint, module=st.builds("{}.{}".format, _WORD, _WORD)),
    st.builds(Entrypoint, script=st.builds("/workspace/{}.py".format, _WORD)),
    st.builds(Entrypoint, inline=st.just("print('hello')\n")),
)
_LAUNCHERS = {"trainwright": "trainwright", "torchrun": "torchrun", "python": "none"}


def job(entrypoint: Entrypoint, launcher: Any, processes: int) -> Job:
    return Job(
        environment="prod", source="", namespace="train", name="llm", target="jobset",
        image=Image(repository="example.org/llm"), entrypoint=entrypoint, launcher=launcher,
        nodes=1, procs_per_node=processes, backend="gloo", pool=None,
    )  # fmt: skip


@examples(_ENTRYPOINTS, st.sampled_from(sorted(_LAUNCHERS)), st.integers(1, 16), _FLAGS)
def test_what_is_written_is_read_again(
    entrypoint: Entrypoint, launcher: str, processes: int, given: dict[str, Any]
) -> None:
    words = command.command_line(job(entrypoint, launcher, processes))
    argv = (*words, *flags.flag_arguments(given))
    found = command.parse(argv)
    assert found.launcher == _LAUNCHERS[launcher]
    assert found.program is not None
    assert found.is_module == bool(entrypoint.module)
    assert argv[found.program] == (entrypoint.module or entrypoint.script or command.SCRIPT_PATH)
    if launcher != "python":
        assert found.options["nproc-per-node"] == str(processes)
    assert flags.parse_arguments(argv[found.program + 1 :]) == flags.Arguments((), _read(given))


def _read(given: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Flags as programs get them: none where one is false, or a list is empty."""
    found = {}
    for name, value in sorted(given.items()):
        if value is True:
            found[name] = ()
        elif isinstance(value, list):
            if value:
                found[name] = tuple(_text(item) for item in value)
        elif value is not False:
            found[name] = (_text(value),)
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- launchers with options of their own ----------------------------------------------------------

_PREFLIGHT = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("shm", "memory", "disk", "ports", "names", "checkpoint"), st.booleans()),
        "collective": st.one_of(st.booleans(), st.integers(1, 900)),
    },
)


def _option(takes: Takes) -> st.SearchStrategy[Any]:
    if isinstance(takes, tuple):
        return st.sampled_from(takes)
    if isinstance(takes, Whole):
        return st.integers(takes.least, takes.most or takes.least + 99)
    if isinstance(takes, Spelled):
        return st.from_regex(takes.pattern, fullmatch=True)
    return {SWITCH: st.booleans(), NUMBER: st.integers(1, 99)}.get(takes, _WORD)


@st.composite
def _started(draw: st.DrawFn) -> Job:
    """A job of several nodes, and what it asks its launcher for."""
    launcher = draw(st.sampled_from(sorted(LAUNCHERS)))
    known = {name: _option(takes) for name, takes in LAUNCHERS[launcher].options.items()}
    names = draw(st.lists(st.sampled_from(sorted(known)), unique=True, max_size=4)) if known else []
    return replace(
        job(draw(_ENTRYPOINTS), launcher, draw(st.integers(1, 8))),
        nodes=draw(st.integers(1, 4)),
        launcher_options={name: draw(known[name]) for name in names},
        preflight=draw(_PREFLIGHT) if launcher == "trainwright" else {},
    )


@examples(_started(), st.lists(_WORD, max_size=2))
def test_every_launcher_is_read_again_with_its_options(written: Job, arguments: list[str]) -> None:
    place = command.MeetingPlace("rank-0.example", "29500", "1" if written.nodes > 1 else "0")
    argv = (*command.command_line(written, place=place), *arguments)
    found = command.parse(argv)
    entry, own = written.entrypoint, written.launcher_options
    assert found.launcher == ("none" if written.launcher == "python" else written.launcher)
    assert found.program is not None
    assert argv[found.program] == (entry.module or entry.script or command.SCRIPT_PATH)
    assert argv[found.program + 1 :] == tuple(arguments)
    assert found.is_module == bool(entry.module)
    asked = {name: _of_option(value) for name, value in own.items() if value is not False}
    assert {name: found.options.get(name) for name in asked} == asked
    assert not {name for name, value in own.items() if value is False} & found.options.keys()
    read = command.read_preflight(found.options.get("preflight", ""))
    assert {name: read.get(name, False) for name in written.preflight} == written.preflight
    if written.launcher == "deepspeed":
        world = command.read_world_info(found.options["world-info"])
        assert [len(ranks) for ranks in world.values()] == [written.procs_per_node] * written.nodes


def _of_option(value: Any) -> str:
    return "" if value is True else str(value)


@examples(st.lists(st.text(max_size=12), max_size=8))
def test_no_words_are_too_strange_to_be_read(words: list[str]) -> None:
    found = command.parse(tuple(words))
    assert found.program is None or found.program < len(words)
    read = flags.parse_arguments(tuple(words))
    assert read.words == tuple(words[: len(read.words)])
    assert bool(read.flags) == (len(read.words) < len(words))
