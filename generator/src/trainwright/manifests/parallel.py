"""Texts checked in as many processes as there are processors, in the order they were given."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from trainwright.datatypes.environment import Environment
from trainwright.manifests.catalog import Catalog
from trainwright.manifests.checking import CheckContext, CheckedText, check_text
from trainwright.manifests.crds import Crd
from trainwright.manifests.reading import Chunk
from trainwright.objects.bundle import Bundle
from trainwright.tasks.processors import processors, shared_by

_WORTH_PROCESSES = 400_000  # bytes; below, starting a process costs more than it saves
_BATCH = 100_000  # bytes, so that no process waits long for the last of another
_MAX_PROCESSES = 8
# A fork has everything imported already, and nothing has made a thread before it. Elsewhere than on
# Linux the system's own libraries may have.
START: Literal["fork", "spawn"] = "fork" if sys.platform == "linux" else "spawn"


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
    # Each process gets the texts and everything else once, at its start; a fork needs no copy.
    catalog = setting.catalog
    given = (chunks, setting.environment, catalog.kubernetes, catalog.crds, setting.around)
    for batch in shared_by(processes, _checker, given, _batches(chunks), start=START):
        yield from batch


def _batches(chunks: Sequence[Chunk]) -> Iterator[tuple[int, int]]:
    """Yield where each batch begins and ends; all are of about the same size."""
    begin = size = 0
    for index, chunk in enumerate(chunks, 1):
        size += len(chunk.raw)
        if size >= _BATCH or index == len(chunks):
            yield begin, index
            begin, size = index, 0


def _checker(
    chunks: Sequence[Chunk],
    environment: Environment,
    kubernetes: str,
    crds: tuple[Crd, ...],
    around: Bundle,
) -> Callable[[tuple[int, int]], list[CheckedText]]:
    gc.disable()  # a worker lives for seconds, and what it makes has no cycles to speak of
    catalog = Catalog(kubernetes, crds)
    setting = CheckContext(environment=environment, catalog=catalog, around=around)
    return lambda batch: [check_text(chunk, setting) for chunk in chunks[slice(*batch)]]
