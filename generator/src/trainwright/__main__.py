"""`trainwright`, and `python -m trainwright`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from trainwright.datatypes.errors import INTERRUPTED, output_trouble

_YOUNG = 200_000  # objects made since the last look at the youngest, 700 by default


def main() -> None:
    """The command line. Its imports take a moment, in which people press Ctrl-C too."""
    # Most of what is made stays until the end: to look for garbage among it takes 5 % of the time.
    gc.set_threshold(_YOUNG)
    ending = _Ending()
    atexit.register(ending.leave)  # the first of all, which is called as the last
    try:
        _command()
    except SystemExit as end:
        ending.status = end.code
        raise


def _command() -> None:
    try:
        from trainwright import cli
        from trainwright.cli.common import CANNOT, discard_output
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.stdout = sys.stdout or _nowhere()  # None where it is closed, as by `>&-`
    sys.stderr = sys.stderr or _nowhere()
    try:
        cli.main(prog_name="trainwright")
    except OSError as error:
        if not (trouble := output_trouble(error)):
            raise
        discard_output()
        sys.stderr.write(f"trainwright: {trouble}\n")
        sys.exit(CANNOT)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


class _Ending:
    """A process exit that skips the interpreter's teardown, which frees objects one by one and
    takes a quarter of a short command's time. The operating system frees them all at once.

    mypy leaves in the same way: https://github.com/python/mypy/blob/master/mypy/util.py, hard_exit
    """

    status: str | int | None = None

    def leave(self) -> None:
        """Exit now, after other threads and exit handlers; on trouble, let the interpreter exit."""
        if not isinstance(self.status, int):
            return
        with suppress(OSError, ValueError):  # the interpreter's own exit reports these
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            os._exit(self.status)


if __name__ == "__main__":
    if sys.path[0] == os.getcwd():  # noqa: PTH109 - where `-m` has looked for this module
        del sys.path[0]  # libraries are imported later, and none of them is in a checkout
    main()
