"""Texts checked in as many processes as there are processors, in the order they were given."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trainwright.datatypes.environment import Environment
from trainwright.manifests.catalog import Catalog
from trainwright.manifests.checking import CheckContext, CheckedText, check_text
from trainwright.manifests.crds import Crd
from trainwright.manifests.reading import Chunk
from trainwright.objects.bundle import Bundle
from trainwright.tasks.processors import (
    at_work,
    exit_on_interrupt,
    processors,
    starting_workers,
)

_WORTH_PROCESSES = 400_000  # bytes; below, starting a process costs more than it saves
_BATCH = 100_000  # bytes, so that no process waits long for the last of another
_MAX_PROCESSES = 8
# A fork has everything imported already, and nothing has made a thread before it. Elsewhere than on
# Linux the system's own libraries may have.
START = "fork" if sys.platform == "linux" else "spawn"


@contextmanager
def undisturbed() -> Iterator[None]:
    """Turn the garbage collector off in this context: parsed data has no cycles to collect."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def look_at_all(chunks: Sequence[Chunk], setting: CheckContext) -> Iterator[CheckedText]:
    """Check all texts, in several processes if they are large, and yield the result of each."""
    processes = min(_MAX_PROCESSES, processors())
    size = sum(len(chunk.raw) for chunk in chunks)
    if processes == 1 or size < _WORTH_PROCESSES:
        for chunk in chunks:
            yield check_text(chunk, setting)
        return
    from concurrent.futures import ProcessPoolExecutor  # 20 ms, and only many manifests need it
    from multiprocessing import get_context

    # Each process gets the texts and everything else once, at its start; a fork needs no copy.
    catalog = setting.catalog
    shared = (setting.environment, catalog.kubernetes, catalog.crds, setting.around)
    context = get_context(START)
    with starting_workers():
        pool = ProcessPoolExecutor(
            processes, context, initializer=_start, initargs=(chunks, *shared)
        )
    with at_work(pool):
        with starting_workers():
            batches = pool.map(_look_in_worker, *zip(*_batches(chunks), strict=True))
        for batch in batches:
            yield from batch


def _batches(chunks: Sequence[Chunk]) -> Iterator[tuple[int, int]]:
    """Yield where each batch begins and ends; all are of about the same size."""
    begin = size = 0
    for index, chunk in enumerate(chunks, 1):
        size += len(chunk.raw)
        if size >= _BATCH or index == len(chunks):
            yield begin, index
            begin, size = index, 0


_work: tuple[Sequence[Chunk], CheckContext] | None = (
    None  # set once in each worker, never elsewhere
)


def _start(
    chunks: Sequence[Chunk],
    environment: Environment,
    kubernetes: str,
    crds: tuple[Crd, ...],
    around: Bundle,
) -> None:
    global _work  # noqa: PLW0603 - what an initializer is for
    exit_on_interrupt()
    gc.disable()  # a worker lives for seconds, and what it makes has no cycles to speak of
    catalog = Catalog(kubernetes, crds)
    _work = chunks, CheckContext(environment=environment, catalog=catalog, around=around)


def _look_in_worker(begin: int, end: int) -> list[CheckedText]:
    assert _work is not None
    chunks, setting = _work
    return [check_text(chunk, setting) for chunk in chunks[begin:end]]
