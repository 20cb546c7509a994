"""`trainwright`, and `python -m trainwright`."""

from __future__ import annotations

import gc
import sys

from trainwright.errors import INTERRUPTED

_YOUNG = 200_000  # objects made since the last look at the youngest, 700 by default


def main() -> None:
    """The command line. Its imports take a moment, in which people press Ctrl-C too."""
    # Most of what is made stays until the end: to look for garbage among it takes 5 % of the time.
    gc.set_threshold(_YOUNG)
    try:
        from trainwright import cli
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    cli.main(prog_name="trainwright")


if __name__ == "__main__":
    main()
