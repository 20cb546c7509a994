"""The command line: what it means, how its mistakes read, and that manifests speak it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright_runtime.failures.errors import UsageError
from trainwright_runtime.launch.options import Nodes, argument_parser, parse

ROOT = Path(__file__).parents[2]


def test_defaults() -> None:
    options = parse(["--", "train.py"], {})
    assert (options.backend, options.nproc_per_node, options.recovery) == ("auto", "auto", "none")
    assert (options.grace_period, options.rendezvous_timeout) == (30.0, 600.0)
    assert (options.nnodes, options.max_restarts, options.coordinator_port) == (None, None, None)
    assert options.program.argv == ("train.py",)


def test_everything_after_the_first_dashes_is_the_script_s() -> None:
    argv = ["--nproc-per-node=2", "--", "-m", "pkg.train", "--", "--backend=x", "--grace-period"]
    program = parse(argv, {}).program
    assert program.module == "pkg.train"
    assert program.arguments == ("--", "--backend=x", "--grace-period")


@pytest.mark.parametrize(
    ("text", "nodes"), [("3", Nodes(low=3, high=3)), ("1:4", Nodes(low=1, high=4))]
)
def test_nodes(text: str, nodes: Nodes) -> None:
    assert parse([f"--nnodes={text}", "--", "t.py"], {}).nnodes == nodes
    assert str(nodes) == text


def test_the_log_format_comes_from_the_environment_unless_it_is_given() -> None:
    environ = {"TRAINWRIGHT_LOG_FORMAT": "json"}
    assert parse(["--", "t.py"], environ).log_format == "json"
    assert parse(["--log-format=text", "--", "t.py"], environ).log_format == "text"


def test_the_coordinators_port_comes_from_the_environment_unless_it_is_given() -> None:
    environ = {"TRAINWRIGHT_COORDINATOR_PORT": "4000"}
    assert parse(["--", "t.py"], environ).coordinator_port == 4000
    assert parse(["--coordinator-port=4001", "--", "t.py"], environ).coordinator_port == 4001
    with pytest.raises(UsageError, match="--coordinator-port"):
        parse(["--", "t.py"], {"TRAINWRIGHT_COORDINATOR_PORT": "http"})


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "nothing to run"),
        ("train.py", "nothing to run"),
        ("--", "nothing to run after --"),
        ("-- -m", "-m needs the name of a module"),
        ("-- --backend=gloo train.py", "--backend=gloo after -- is not a script"),
        ("--backend=mpi -- t.py", "--backend: invalid choice: 'mpi'"),
        ("--nproc-per-node=0 -- t.py", "'0' is not a number from 1 up"),
        ("--nproc-per-node=two -- t.py", "'two' is not a number"),
        ("--nnodes=3:1 -- t.py", "the minimum is above the maximum"),
        ("--nnodes=1: -- t.py", "'' is not a number"),
        ("--grace-period=-1 -- t.py", "'-1' is not a number of seconds"),
        ("--grace-period=nan -- t.py", "'nan' is not a number of seconds"),
        ("--rendezvous-timeout=inf -- t.py", "'inf' is not a number of seconds"),
        ("--coordinator-port=70000 -- t.py", "'70000' is not a port"),
        ("--max-restarts=3 -- t.py", "--recovery=none"),
        ("--replica=node -- t.py", "--replica=node is for --recovery=live"),
        ("--grace=3 -- t.py", "unrecognized arguments: --grace=3"),
    ],
)
def test_mistakes_are_one_line(line: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line.split(), {})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_wrong_log_format_in_the_environment_is_named() -> None:
    with pytest.raises(UsageError, match="TRAINWRIGHT_LOG_FORMAT is 'xml'"):
        parse(["--", "t.py"], {"TRAINWRIGHT_LOG_FORMAT": "xml"})


def _lists(node: Any) -> Iterator[list[Any]]:
    """Every list in a document, as command lines are lists wherever a kind keeps them."""
    if isinstance(node, dict):
        for value in node.values():
            yield from _lists(value)
    elif isinstance(node, list):
        yield node
        for value in node:
            yield from _lists(value)


def _command_lines() -> Iterator[tuple[Path, list[str]]]:
    folders = [ROOT / "environments", *ROOT.glob("tests/golden/*/expected")]
    for folder in folders:
        for path in sorted(folder.rglob("rendered/*/*.yaml")):
            text = path.read_text()
            if "trainwright_runtime" in text:
                for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
                    for words in _lists(document):
                        if words[:3] == ["python", "-m", "trainwright_runtime"]:
                            yield path, words[3:]


def test_every_rendered_command_line_is_understood() -> None:
    lines = list(_command_lines())
    assert len(lines) > 10
    for path, argv in lines:
        options = parse(argv, {})
        assert options.program.argv, path


def option_rows() -> list[str]:
    """The rows of the table of options in docs/runtime.md."""
    rows = []
    for action in argument_parser({})._actions:
        if action.dest == "help":
            continue
        value = "|".join(action.choices) if action.choices else action.metavar
        option = " ".join(filter(None, (action.option_strings[0], value))).replace("|", "\\|")
        unset = action.default is None or action.nargs == 0
        default = "" if unset else str(action.default).removesuffix(".0")
        text = str(action.help).replace(" (%(default)g)", "").replace(" (%(default)s)", "")
        rows.append(f"| `{option}` | {default} | {text} |")
    return rows


def test_the_documentation_has_the_options() -> None:
    documented = (ROOT / "docs/runtime.md").read_text()
    assert "\n".join(option_rows()) in documented
