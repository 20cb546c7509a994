"""Options of commands: whatever their values are, what is wrong with one is a message."""

from __future__ import annotations

import shlex

import pytest

from trainwright.importing import ImportInput
from trainwright.importing.options import Option, options_of
from trainwright.kinds.reading import ImportingError

IMAGE = "registry.example.com/a:1"
VALUES = (
    "", "x", "-1", "²", "9" * 5000, "'", "python 'a.py", "a=b=c", ":/:/", "1-", "gpu:x", "device=", "type=bind", "--",
    "{",
)  # fmt: skip
# Each command, with the options that it needs in front and its program behind.
COMMANDS = {
    "docker run": ("docker run", f"{IMAGE} torchrun --nproc-per-node=2 a.py"),
    "elasticdl train": (
        "elasticdl train --distribution_strategy=AllreduceStrategy --image_name=a/b:1 "
        "--job_name=a --job_command='python a.py'",
        "",
    ),
    "apptainer exec": ("srun apptainer exec", f"docker://{IMAGE} python a.py"),
    "slurm": ("srun", "python a.py"),
}
OPTIONS = [
    (command, option)
    for command in COMMANDS
    for option in options_of(command).values()
    if option.read and option.takes != "switch"
]


def problems(text: str) -> list[str]:
    """Return why a text is not imported, up to what the spec would be compared with."""
    inputs = ImportInput()
    inputs.commands("a.sh", text)
    try:
        for source in inputs.sources:
            source.check("1.34")
            source.run()
    except ImportingError as error:
        return [*inputs.problems, str(error)]
    return inputs.problems


@pytest.mark.parametrize(
    ("command", "option"), OPTIONS, ids=[f"{c} {o.spellings[0]}" for c, o in OPTIONS]
)
def test_any_value_of_an_option_is_read_or_refused_with_its_place(
    command: str, option: Option
) -> None:
    """Never a traceback, as by a number or a quote that is taken for granted."""
    begin, end = COMMANDS[command]
    for value in VALUES:
        given = f"{option.spellings[0]}={shlex.quote(value)}"
        texts = [f"{begin} {given} {end}"]
        texts += [f"#!/bin/sh\n#SBATCH {given}\n{begin} {end}\n"] if command == "slurm" else []
        for problem in (problem for text in texts for problem in problems(text)):
            assert problem.startswith("a.sh:"), (value, problem)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--num_workers=x", "--num_workers is x, and no number: write one"),
        ("--num_workers=0", "--num_workers is 0, and no number: write one"),
        (
            '--job_command="python \'a.py"',
            "--job_command has a quote that is not closed: close it",
        ),
        ("--job_command=", "--job_command is missing"),
    ],
)
def test_what_is_wrong_with_an_option_of_elasticdl_is_said(given: str, expected: str) -> None:
    begin, _ = COMMANDS["elasticdl train"]
    assert problems(f"{begin} {given}") == [f"a.sh:1:1: elasticdl train: {expected}"]
