"""Waiting until nodes are in a Ray cluster, as its head reports.

python -m trainwright_runtime.ray.wait HOST:PORT SECONDS NODE...
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence

from trainwright_runtime.failures import exit_codes

_PAUSE = 0.25  # seconds between two looks


def main(argv: Sequence[str]) -> int:
    """Return 0 once all nodes are in the cluster; else print who is missing, return UNREACHABLE."""
    address, timeout, *names = argv
    deadline = time.monotonic() + float(timeout)
    while missing := set(names) - _alive(address):
        if time.monotonic() >= deadline:
            print(f"{', '.join(sorted(missing))} did not join in {timeout} s", file=sys.stderr)
            return exit_codes.UNREACHABLE
        time.sleep(_PAUSE)
    return exit_codes.DONE


def _alive(address: str) -> set[str]:
    """Return the names of the nodes that are in the cluster now."""
    import ray

    try:
        if not ray.is_initialized():
            ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
        return {each["NodeName"] for each in ray.nodes() if each["Alive"]}
    except (ConnectionError, RuntimeError):  # the head has only begun
        return set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
