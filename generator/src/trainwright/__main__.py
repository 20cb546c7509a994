"""`trainwright`, and `python -m trainwright`."""

from __future__ import annotations

import sys

from trainwright.errors import INTERRUPTED


def main() -> None:
    """The command line. Its imports take a moment, in which people press Ctrl-C too."""
    try:
        from trainwright import cli
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    cli.main(prog_name="trainwright")


if __name__ == "__main__":
    main()
