"""How many manifests a second `validate` reads, holds against schemas and all rules.

    .venv/bin/python benchmarks/manifests.py [--documents 5000] [--runs 5] [--findings 0.01]

PyTorchJobs as people write them, no two alike, in files of 1 to 1,000 documents. The figure is that
of whole processes, from cold to the report. The floor is a process that only parses the same files,
with the fastest strict reader known (yaml-rs), a file after the other on every processor. A share
of the documents has a mistake: their positions are read again by libyaml.
"""

from __future__ import annotations

import argparse
import compileall
import cProfile
import gc
import io
import pstats
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import trainwright
from trainwright.tasks.processors import processors

WANTED = 3000  # documents a second
SIZES = (1, 1, 1, 2, 3, 5, 8, 20, 50, 200, 1000)  # documents a file, in turn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--findings", type=float, default=0.01, help="share with a mistake")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as name:
        folder = Path(name)
        write(folder, options.documents, options.findings)
        size = sum(file.stat().st_size for file in folder.iterdir())
        files = len(list(folder.iterdir()))
        print(
            f"{options.documents:,} documents in {files} files, {size / options.documents:,.0f} "
            f"bytes each, {options.findings:.1%} with a mistake; {processors()} processors"
        )
        compileall.compile_dir(str(Path(trainwright.__file__).parent), quiet=1)  # as pip leaves it
        check = [sys.executable, "-m", "trainwright", "validate", name, "-o", "json"]
        floor = [sys.executable, "-c", FLOOR, name]
        parsed, checked = [], []
        for _ in range(options.runs):  # in turn, so that both meet the same noise
            parsed.append(timed(floor))
            checked.append(timed(check))
        show("parsing alone", options.documents, parsed)
        show("validate", options.documents, checked)
        ratio = statistics.median(c.wall / p.wall for c, p in zip(checked, parsed, strict=True))
        print(f"check / parsing alone   {ratio:6.2f}   (wanted: {WANTED:,} documents/s)")
        profile(folder)


@dataclass(frozen=True)
class Run:
    """Seconds of one process and its children, by the clock and of processors."""

    wall: float
    processor: float


def show(name: str, documents: int, runs: list[Run]) -> None:
    """The median of the runs. Processor time says what they would take without other work."""
    wall, processor = (
        statistics.median(getattr(r, f) for r in runs) for f in ("wall", "processor")
    )
    print(
        f"{name:20} {documents / wall:8,.0f} documents/s, best run "
        f"{documents / min(run.wall for run in runs):,.0f}; "
        f"{documents / processor:,.0f} a second of one processor"
    )


FLOOR = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from yaml_rs import loads

def parse(texts):
    return sum(loads(text, parse_datetime=False) is not None for text in texts)

texts = [t for f in sorted(Path(sys.argv[1]).iterdir()) for t in f.read_text().split("\\n---\\n")]
with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
    print(sum(pool.map(parse, [texts[i : i + 25] for i in range(0, len(texts), 25)])))
"""


def timed(
    command: list[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Run:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, env=environment, cwd=folder, check=False
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command} ended with {done.returncode}")
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Run(wall, used)


# --- where the time goes ------------------------------------------------------------------------


def profile(folder: Path) -> None:
    """Each phase by itself in this one process, then the functions that cost most."""
    gc.disable()  # as in the processes that do the work
    marks = [("start", time.perf_counter())]

    def mark(name: str) -> None:
        marks.append((name, time.perf_counter()))

    from trainwright.datatypes.manifest import Manifest
    from trainwright.kinds.subjects import subject_of
    from trainwright.manifests import checking, reading, run
    from trainwright.manifests.catalog import Catalog
    from trainwright.rules import families
    from trainwright.rules.registry import RULES

    mark("import")
    chunks = [c for source in reading.gather((str(folder),)) for c in reading.split(source)]
    mark("read and split")
    catalog = Catalog("1.37")
    known = catalog.find("kubeflow.org/v1", "PyTorchJob")
    assert known is not None
    known.schema.accepts({})
    mark("compile the schema")
    bodies = [glanced[0] for c in chunks if (glanced := reading.glance(c)) is not None]
    mark("parse")
    wrong = [body for body in bodies if known.violations(body)]
    mark("hold against the schema")
    environment = run.nowhere("1.37")
    setting = checking.CheckContext(environment=environment, catalog=catalog)
    for body in bodies:
        for _ in families.run(subject_of(Manifest(body=body), environment, None, setting.around)):
            pass
    mark(f"{len(RULES)} rules")
    careful = chunks[:50]
    for chunk in careful:
        checking.check_text_exactly(chunk, setting)
    mark("")
    print(f"\nphases in one process ({len(wrong)} documents break the schema)")
    for (_, before), (name, after) in pairwise(marks):
        if name:
            micro = (after - before) / len(chunks) * 1e6
            print(f"  {name:28} {(after - before) * 1e3:8.0f} ms {micro:8.1f} µs a document")
    slow = (marks[-1][1] - marks[-2][1]) / len(careful) * 1e6
    print(f"  {'with positions, if needed':28} {'':8}    {slow:8.1f} µs a document")
    profiler = cProfile.Profile()
    profiler.enable()
    for chunk in chunks[:500]:
        checking.check_text(chunk, setting)
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(14)
    print("\nfunctions, 500 documents\n" + "\n".join(text.getvalue().splitlines()[7:]))


# --- documents ----------------------------------------------------------------------------------


def write(folder: Path, documents: int, mistakes: float) -> None:
    chance = random.Random(20260101)
    left, number = documents, 0
    while left:
        count = min(left, SIZES[number % len(SIZES)])
        texts = [document(chance, documents - left + i, mistakes) for i in range(count)]
        (folder / f"{number:04}.yaml").write_text("---\n".join(texts))
        left, number = left - count, number + 1


def document(chance: random.Random, number: int, mistakes: float) -> str:
    """One PyTorchJob, different from all others."""
    name = f"{chance.choice(('resnet', 'llm', 'bert', 'vit', 'mnist'))}-{number}"
    workers, gpus = chance.randrange(8), chance.choice((1, 2, 4, 8))
    replica = tuple(pods(chance, name, gpus, number))
    lines = [
        "apiVersion: kubeflow.org/v1",
        "kind: PyTorchJob",
        "metadata:",
        f"  name: {name}",
        f"  namespace: team-{number % 17}",
        "  labels:",
        f"    app: {name}",
        f"    kueue.x-k8s.io/queue-name: team-{number % 17}",
        f'    owner: "{chance.randrange(1000)}"',
        "spec:",
        f"  nprocPerNode: {gpus if chance.random() < mistakes else repr(str(gpus))}",
        "  runPolicy:",
        f"    backoffLimit: {chance.randrange(1, 9)}",
        "    cleanPodPolicy: Running",
        "  pytorchReplicaSpecs:",
        "    Master:",
        "      replicas: 1",
        *replica,
    ]
    if workers:
        lines += ["    Worker:", f"      replicas: {workers}", *replica]
    return "\n".join(lines) + "\n"


def pods(chance: random.Random, name: str, gpus: int, number: int) -> Iterator[str]:
    lines = f"""\
restartPolicy: OnFailure
template:
  metadata:
    labels:
      app: {name}
  spec:
    terminationGracePeriodSeconds: {chance.randrange(60, 600)}
    containers:
    - name: pytorch
      image: registry.example.com/team-{number % 17}/{name}:1.{number}.{chance.randrange(9)}
      command:
      - torchrun
      - --nproc-per-node={gpus}
      - train.py
      args:
      - --lr={chance.random():.5f}
      - --epochs={chance.randrange(1, 100)}
      - --data=/data/{chance.randrange(10**6)}
      env:
      - name: NCCL_DEBUG
        value: INFO
      - name: RUN_{number}
        value: "{chance.randrange(10**9)}"
      ports:
      - name: pytorchjob-port
        containerPort: 23456
        protocol: TCP
      resources:
        requests:
          cpu: "{chance.randrange(4, 64)}"
          memory: {chance.randrange(64, 512)}Gi
        limits:
          memory: 512Gi
          nvidia.com/gpu: {gpus}
      volumeMounts:
      - name: shm
        mountPath: /dev/shm
      - name: data
        mountPath: /data
    volumes:
    - name: shm
      emptyDir:
        medium: Memory
        sizeLimit: 16Gi
    - name: data
      persistentVolumeClaim:
        claimName: data-{number}"""
    return (f"      {line}" for line in lines.splitlines())


if __name__ == "__main__":
    main()
