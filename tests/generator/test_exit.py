"""How a process of the command ends: what is waited for, and what is left to the kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ENDING = """
import atexit, threading
from trainwright.__main__ import main

class Object:
    def __del__(self, write=print):
        write("freed")

def last():
    threading.main_thread().join()
    atexit.register(print, "exit handler")
    print("thread")

it = Object()
it.itself = it
threading.Thread(target=last).start()
main()
"""


def test_the_end_waits_for_threads_and_exit_handlers_and_frees_no_object() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDING, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[2:] == ["thread", "exit handler"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code"), [(("--help",), 0), (("--nonsense",), 2), (("explain", "x/y"), 2)]
)
def test_what_a_command_ends_with_is_the_exit_code_of_its_process(
    arguments: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    with (tmp_path / "output").open("w+") as output:
        command = [sys.executable, "-m", "trainwright", *arguments]
        done = subprocess.run(command, stdout=output, stderr=output, cwd=tmp_path, check=False)
        output.seek(0)
        assert (done.returncode, output.read().endswith("\n")) == (code, True)
