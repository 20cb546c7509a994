"""Command lines: what is written is read again as what was meant."""

from __future__ import annotations

from typing import Any

from hypothesis import given as examples
from hypothesis import strategies as st

from trainwright.model import Entrypoint, Image, Job
from trainwright.pods import command, flags

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


@examples(st.lists(st.text(max_size=12), max_size=8))
def test_no_words_are_too_strange_to_be_read(words: list[str]) -> None:
    found = command.parse(tuple(words))
    assert found.program is None or found.program < len(words)
    read = flags.parse_arguments(tuple(words))
    assert read.words == tuple(words[: len(read.words)])
    assert bool(read.flags) == (len(read.words) < len(words))
