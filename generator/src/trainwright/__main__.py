"""`trainwright`, and `python -m trainwright`."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TextIO

from trainwright.errors import INTERRUPTED, output_trouble

_YOUNG = 200_000  # objects made since the last look at the youngest, 700 by default


def main() -> None:
    """The command line. Its imports take a moment, in which people press Ctrl-C too."""
    # Most of what is made stays until the end: to look for garbage among it takes 5 % of the time.
    gc.set_threshold(_YOUNG)
    try:
        from trainwright import cli
        from trainwright.cli.common import CANNOT
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.stdout = sys.stdout or _nowhere()  # None where it is closed, as by `>&-`
    sys.stderr = sys.stderr or _nowhere()
    try:
        cli.main(prog_name="trainwright")
    except OSError as error:
        if not (trouble := output_trouble(error)):
            raise
        sys.stderr.write(f"trainwright: {trouble}\n")
        sys.exit(CANNOT)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


if __name__ == "__main__":
    main()
