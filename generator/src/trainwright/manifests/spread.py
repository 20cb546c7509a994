"""Texts looked at in as many processes as there are processors, in the order they were given."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence

from trainwright.manifests.catalog import Catalog
from trainwright.manifests.checking import Looked, Setting, look
from trainwright.manifests.crds import Crd
from trainwright.manifests.reading import Chunk
from trainwright.model import Environment
from trainwright.rules.bundle import Bundle

_WORTH_PROCESSES = 400_000  # bytes; below, starting a process costs more than it saves
_BATCH = 100_000  # bytes, so that no process waits long for the last of another
_MAX_PROCESSES = 8
# A fork has everything imported already, and nothing has made a thread before it. Elsewhere than on
# Linux the system's own libraries may have.
START = "fork" if sys.platform == "linux" else "spawn"


def look_at_all(chunks: Sequence[Chunk], setting: Setting) -> Iterator[Looked]:
    """What is wrong with each text."""
    processes = min(_MAX_PROCESSES, _processors())
    size = sum(len(chunk.raw) for chunk in chunks)
    if processes == 1 or size < _WORTH_PROCESSES:
        for chunk in chunks:
            yield look(chunk, setting)
        return
    from concurrent.futures import ProcessPoolExecutor  # 20 ms, and only many manifests need it
    from multiprocessing import get_context

    context = get_context(START)
    parts = (setting.environment, setting.catalog.kubernetes, setting.catalog.crds, setting.around)
    with ProcessPoolExecutor(processes, context, initializer=_start, initargs=parts) as pool:
        for batch in pool.map(_look_in_worker, tuple(_batches(chunks))):
            yield from batch


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _batches(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, ...]]:
    batch: list[Chunk] = []
    size = 0
    for chunk in chunks:
        batch.append(chunk)
        size += len(chunk.raw)
        if size >= _BATCH:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


_setting: Setting | None = None  # set once in each worker process, never in the main one


def _start(
    environment: Environment, kubernetes: str, crds: tuple[Crd, ...], around: Bundle
) -> None:
    global _setting  # noqa: PLW0603 - what an initializer is for
    gc.disable()  # a worker lives for seconds, and what it makes has no cycles to speak of
    _setting = Setting(environment=environment, catalog=Catalog(kubernetes, crds), around=around)


def _look_in_worker(batch: tuple[Chunk, ...]) -> list[Looked]:
    assert _setting is not None
    return [look(chunk, _setting) for chunk in batch]
