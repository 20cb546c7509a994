"""`eject`: what is rendered, as plain files that need nothing of Trainwright.

This is the way back: no object differs from the one that is applied. Runs keep their values files
if the chart, which comes along, renders the same objects from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.documents import yamlio
from trainwright.helm import own_chart
from trainwright.helm.engines import ChartRefusal, Engine
from trainwright.kinds import TARGETS
from trainwright.runs.folder import RenderedFolder
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import RECORD_FILE, VALUES_FILE
from trainwright.runs.workspace import Workspace

_CHART = "chart"
_HEADER = re.compile(r"\A(?:#.*\n)+")
_COMPOSE = {target.template for target in TARGETS.values() if target.envelope}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ejected:
    """An environment as plain files, by their path in its folder."""

    environment: str
    namespace: str
    files: Mapping[str, str]
    objects: int
    jobs: tuple[str, ...]
    without_values: tuple[str, ...]
    """Jobs of which the chart renders other objects now than those that are recorded."""


def eject(workspace: Workspace, environments: Sequence[str], engine: Engine) -> tuple[Ejected, ...]:
    """Return the rendered files of whole environments, which have to be up to date."""
    return tuple(_ejected(workspace, name, engine) for name in environments)


def _ejected(workspace: Workspace, environment: str, engine: Engine) -> Ejected:
    namespace = workspace.environment(environment).namespace
    rendered = {path: _HEADER.sub("", text) for path, text in _texts(workspace.folder(environment))}
    jobs = [path.parent.name for path in map(PurePosixPath, rendered) if path.name == RECORD_FILE]
    without = [job for job in jobs if not _renders(engine, _of(job, rendered), job, namespace)]
    left_out = {f"{job}/{RECORD_FILE}" for job in jobs} | {
        f"{job}/{VALUES_FILE}" for job in without
    }
    files = {path: text for path, text in rendered.items() if path not in left_out}
    manifests = [t for p, t in files.items() if PurePosixPath(p).name not in _NO_MANIFESTS]
    return Ejected(
        environment=environment,
        namespace=namespace,
        files=files,
        objects=sum(len(_documents(text)) for text in manifests),
        jobs=tuple(sorted(jobs)),
        without_values=tuple(sorted(without)),
    )


_NO_MANIFESTS = {VALUES_FILE, KUSTOMIZATION_FILE, *_COMPOSE}


def _texts(folder: RenderedFolder) -> Iterator[tuple[str, str]]:
    for path in folder.hashes:
        yield path, folder.tree.read(f"{folder.path}/{path}").decode("utf-8")


def _of(job: str, rendered: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a job, by their name in its folder."""
    return {
        path.removeprefix(f"{job}/"): text
        for path, text in rendered.items()
        if path.startswith(f"{job}/")
    }


def _renders(engine: Engine, files: Mapping[str, str], job: str, namespace: str) -> bool:
    """Whether the chart renders exactly the objects of a job from its values."""
    recorded = {n: _documents(t) for n, t in files.items() if n not in (VALUES_FILE, RECORD_FILE)}
    try:
        (values,) = yamlio.load_rendered(files[VALUES_FILE])
        rendered = engine.render(values, job, namespace)
    except ChartRefusal:
        return False
    return {name: _documents(text) for name, text in rendered.items()} == recorded


def _documents(text: str) -> list[Data]:
    return list(yamlio.load_rendered(text))


def texts(ejected: Sequence[Ejected]) -> dict[str, str]:
    """Return every file to write, by path: the environments, the chart, and a README about them."""
    return {
        "README.md": _readme(ejected),
        **{f"{each.environment}/{p}": text for each in ejected for p, text in each.files.items()},
        **{
            f"{_CHART}/{path.relative_to(own_chart.FOLDER).as_posix()}": path.read_text("utf-8")
            for path in sorted(own_chart.FOLDER.rglob("*"))
            if path.is_file() and path.parent.name != "ci"
        },
    }


def _readme(ejected: Sequence[Ejected]) -> str:
    rows = "".join(
        f"| `{each.environment}/` | `{each.namespace}` | {len(each.jobs)} | {each.objects} |\n"
        for each in ejected
    )
    return _README.format(rows=rows, name=own_chart.name(), version=own_chart.version())


_README = """\
# Training jobs, as plain manifests

| folder | namespace | jobs | objects |
|---|---|---|---|
{rows}
`kubectl apply -k FOLDER` applies an environment. Where Argo CD or Flux does, give its Application
or Kustomization this path in place of `environments/<env>/rendered`: the objects are the same, so
nothing is applied anew. Keep their sync options; without `Prune=false` a file that is removed ends
its training.

`FOLDER/JOB/values.yaml` are the values of the chart in `chart/` ({name} {version}):
`helm template JOB chart --namespace NAMESPACE --values FOLDER/JOB/values.yaml` prints the job's
manifests. A job without that file was rendered by another version of the chart, or edited since.

What `python -m trainwright_runtime` is in a command is part of the job's image.
"""
