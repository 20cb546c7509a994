"""Many jobs rendered: here, or in several processes when there is work for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from trainwright import helm, ledger, render, resolve
from trainwright.load import JobFile, LoadedEnvironment, Reader, environment_files
from trainwright.model import Environment
from trainwright.processors import exit_on_interrupt, processors, starting_workers
from trainwright.tree import Tree

# Below this many jobs a second process costs more to start than it saves.
_WORTH_A_PROCESS = 150
_CHUNK = 50
_MAX_PROCESSES = 4  # each holds a Helm engine and schemas, some 90 MB

Outcome: TypeAlias = tuple[render.Rendered, dict[str, str]]  # with the states of its inputs


def run(
    tree: Tree, files: Sequence[JobFile], binary: str | None, kubernetes: str = ""
) -> Iterator[Outcome]:
    """Every job rendered, in order. `binary` names a helm to use instead of the embedded one,
    `kubernetes` a minor version instead of each environment's own.
    """
    processes = min(_MAX_PROCESSES, processors())
    if processes == 1 or len(files) < _WORTH_A_PROCESS:
        renderer = Renderer(tree, binary, kubernetes)
        yield from map(renderer.render, files)
        return
    from concurrent.futures import ProcessPoolExecutor  # 30 ms, and only large plans need it
    from multiprocessing import get_context

    # Spawned, not forked: the Go runtime inside the Helm engine does not survive a fork.
    with ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=_start, initargs=(tree, binary, kubernetes)
    ) as pool:
        with starting_workers():
            outcomes = pool.map(_render_in_worker, files, chunksize=_CHUNK)
        yield from outcomes


class Renderer:
    """Renders job files, keeping the engine and the shared layers from one to the next."""

    def __init__(self, tree: Tree, binary: str | None, kubernetes: str = ""):
        self._tree = tree
        self._kubernetes = kubernetes
        self._reader = Reader(tree)
        self._engine = helm.engine(binary)
        self._environments: dict[str, tuple[LoadedEnvironment, Environment | None]] = {}
        self._ledgers: dict[str, ledger.Ledger] = {}

    def render(self, file: JobFile) -> Outcome:
        """One job, and the state by path of each file that decided what it came to."""
        loaded, environment = self._environment(file.environment)
        if environment is None:  # it broke since the plan began
            rendered = render.Rendered(file=file, usable=False, findings=loaded.findings)
            return rendered, self._states(environment_files(file.environment))
        runs = self._ledger(file.environment).runs
        rendered = render.job(self._reader.job(file, loaded), environment, self._engine, runs)
        inputs = self._states(rendered.inputs)
        self._reader.forget(file.path)
        return rendered, inputs

    def _states(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: self._reader.state(path) for path in sorted(paths)}

    def _environment(self, name: str) -> tuple[LoadedEnvironment, Environment | None]:
        if name not in self._environments:
            loaded = self._reader.environment(name)
            document = loaded.document
            resolved = None if document is None else resolve.environment(name, document)
            if resolved is not None and self._kubernetes:
                resolved = replace(resolved, kubernetes_version=self._kubernetes)
            self._environments[name] = (loaded, resolved)
        return self._environments[name]

    def _ledger(self, name: str) -> ledger.Ledger:
        if name not in self._ledgers:
            self._ledgers[name] = ledger.read(self._tree, name)
        return self._ledgers[name]


_worker: Renderer | None = None  # set once in each worker process, never in the main one


def _start(tree: Tree, binary: str | None, kubernetes: str) -> None:
    global _worker  # noqa: PLW0603 - what an initializer is for
    exit_on_interrupt()
    _worker = Renderer(tree, binary, kubernetes)


def _render_in_worker(file: JobFile) -> Outcome:
    assert _worker is not None
    return _worker.render(file)
