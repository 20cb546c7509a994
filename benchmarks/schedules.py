"""A thousand random schedules of kills, pauses, partitions, full disks and what else there is.

    python benchmarks/schedules.py [schedules] [first seed] [kind,kind,...]

Of all kinds of disturbances unless some are named. Prints the share that held, and the shrunk
schedule of each that did not.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "runtime"))


def main() -> int:
    nemesis: Any = importlib.import_module("nemesis")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds = sys.argv[3].split(",") if len(sys.argv) > 3 else nemesis.KINDS
    forks, failed, began = nemesis.Forks(), 0, time.monotonic()
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            deeds, setup = nemesis.schedule(seed, kinds), nemesis.Setup.of(seed)
            try:
                nemesis.run(Path(folder, "all"), deeds, forks, setup)
            except nemesis.Violation as violation:
                failed += 1
                fewer = nemesis.shrunk(Path(folder), deeds, forks, setup)
                print(f"seed {seed}: {fewer}\n{violation}", flush=True)
            if (seed + 1 - first) % 10 == 0:
                print(f"{seed + 1 - first - failed} of {seed + 1 - first} held so far", flush=True)
    forks.close()
    seconds = time.monotonic() - began
    print(f"{count - failed} of {count} held, {seconds / count:.1f} s each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
