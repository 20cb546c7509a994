"""How soon the entrypoint's processes take their first step beside torchrun's, and how they end.

    .venv/bin/python benchmarks/launching.py [--pairs 5] [--clean 200]

A launch of each is timed in turns, from the start of the process to the first step of DDP on two
processes of this machine, and compared pair by pair.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPT = """
import os, pathlib, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.autograd.backward(model(torch.ones(4, 8)).sum())
optimizer.step()
if dist.get_rank() == 0:
    pathlib.Path(os.environ["STEPPED"]).write_text(str(time.time()))
dist.barrier()
dist.destroy_process_group()
print("done")
"""
OURS = (sys.executable, "-m", "trainwright_runtime", "--nproc-per-node=2")
LAUNCHERS = {
    "torchrun": (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"),
    "none": (*OURS, "--recovery=none", "--"),
    "restart": (*OURS, "--recovery=restart", "--"),
}


def launch(folder: Path, launcher: str, number: int = 0) -> tuple[float, bool]:
    """Seconds to the first step, and whether the end was a clean one."""
    stepped = folder / f"stepped-{number}"
    environ = {**os.environ, "STEPPED": str(stepped), "OMP_NUM_THREADS": "1"}
    began = time.time()
    done = subprocess.run(
        [*LAUNCHERS[launcher], "train.py"],
        cwd=folder, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    clean = done.returncode == 0 and done.stdout.count("done") == 2
    if not clean:
        print(f"exit code {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
    return (float(stepped.read_text()) - began if stepped.exists() else float("nan")), clean


def first_step(folder: Path, pairs: int) -> None:
    launch(folder, "torchrun")  # what is read from the disk is in memory from here on
    for ours in ("none", "restart"):
        theirs, mine = [], []
        for _ in range(pairs):
            theirs.append(launch(folder, "torchrun")[0])
            mine.append(launch(folder, ours)[0])
        ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
        seconds = f"{statistics.median(mine):.2f} s over {statistics.median(theirs):.2f} s"
        message = f"time to first step, --recovery={ours} over torchrun"
        print(f"{message}: {ratio:.2f} ({seconds}; at most 1)", flush=True)


def clean_ends(folder: Path, runs: int) -> None:
    with ThreadPoolExecutor(2) as threads:
        ends = list(threads.map(lambda number: launch(folder, "none", number)[1], range(runs)))
    print(f"clean ends that look like one: {sum(ends)} of {runs} (all)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--clean", type=int, default=200, help="runs that must end cleanly")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        first_step(folder, options.pairs)
        clean_ends(folder, options.clean)


if __name__ == "__main__":
    main()
