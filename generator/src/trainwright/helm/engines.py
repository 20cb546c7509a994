"""Engines: values in, rendered templates out.

Two implementations of one small protocol, chosen by `engine()`: Helm's Go SDK as a shared library
in this process (a millisecond per job, of many at once), or a `helm` binary (one process per job,
some 50 ms). Both render the same bytes. The protocol is there because
https://pypi.org/project/helm-python-sdk/ is young.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import EngineError
from trainwright.datatypes.frozen import dataclass
from trainwright.documents import yamlio
from trainwright.documents.validation import schema
from trainwright.files.git_command import absolute_path
from trainwright.files.tree import read_given
from trainwright.helm import own_chart, sdk

if TYPE_CHECKING:
    from helm_python import Chart

_SCHEMA = "values.schema.json"
_TIMEOUT = 60  # seconds for one `helm template`, which takes 0.05


class ChartRefusal(Exception):
    """The chart refuses these values; the message is that of its schema or of `fail`."""


class Release(NamedTuple):
    """Values to render, with the name and the namespace of a release."""

    values: dict[str, Data]
    name: str
    namespace: str


class Engine(Protocol):
    """Renders the chart. Templates that come out empty are left out of the result."""

    def render(self, values: Mapping[str, Data], release: str, namespace: str) -> dict[str, str]:
        """Return the rendered text by template file name ("pytorchjob.yaml"), without markers.

        Raise ChartRefusal for values the chart refuses, EngineError when Helm itself fails.
        """
        ...

    def render_all(self, releases: Sequence[Release]) -> list[dict[str, str] | ChartRefusal]:
        """Return the same of many releases, which may take less time than one after the other."""
        return [_or_refusal(self, release) for release in releases]


def _or_refusal(engine: Engine, release: Release) -> dict[str, str] | ChartRefusal:
    try:
        return engine.render(*release)
    except ChartRefusal as refusal:
        return refusal


def engine(binary: str | None = None) -> Engine:
    """Return the embedded engine, or the `helm` binary if one is named."""
    return Binary(binary) if binary else Embedded()


class Embedded(Engine):
    """Helm's own Go SDK, loaded into this process on first use.

    Helm compiles values.schema.json anew at each render, which takes five times as long as the
    rendering. So values are first checked against a schema that is compiled once, and the chart
    renders without it; only values that are refused go through the whole chart, for Helm's own
    message. Helm parses all templates anew as well, which takes longer than rendering one release:
    so those of other targets are left out, and many releases are rendered at once.
    """

    def __init__(self) -> None:
        sdk.start()
        self._of_target: dict[str, tuple[Chart, list[str]]] = {}

    @cached_property
    def _whole(self) -> Chart:
        chart: Chart = sdk.load().Chart.load(own_chart.FOLDER)
        return chart

    def _bare(self, target: str) -> tuple[Chart, list[str]]:
        """Return the chart for many releases of a target, and the names of its templates."""
        if target not in self._of_target:
            paths = own_chart.templates(target)
            chart = sdk.load().Chart.load_archive(own_chart.archive(paths))
            self._of_target[target] = chart, [it.name for it in paths if it.suffix == ".yaml"]
        return self._of_target[target]

    def render(self, values: Mapping[str, Data], release: str, namespace: str) -> dict[str, str]:
        (rendered,) = self.render_all([Release({**values}, release, namespace)])
        if isinstance(rendered, ChartRefusal):
            raise rendered
        return rendered

    def render_all(self, releases: Sequence[Release]) -> list[dict[str, str] | ChartRefusal]:
        by_target: dict[str, dict[int, Release]] = {}
        done: dict[int, dict[str, str] | ChartRefusal] = {}
        for number, given in enumerate(releases):
            release = given._replace(values=yamlio.plain(given.values))
            if schema.chart_values().accepts(release.values):
                by_target.setdefault(release.values["target"], {})[number] = release
            else:
                done[number] = self._refused(release)
        for target, valid in by_target.items():
            done |= zip(valid, self._rendered(target, [*valid.values()]), strict=True)
        return [done[number] for number in range(len(releases))]

    def _rendered(
        self, target: str, releases: Sequence[Release]
    ) -> list[dict[str, str] | ChartRefusal]:
        chart, templates = self._bare(target)
        defaults = own_chart.defaults()
        full = [it._replace(values=_over(defaults, it.values))._asdict() for it in releases]
        try:
            (text,) = chart.render({"releases": full, "templates": templates}).values()
        except sdk.load().HelmError:
            if len(releases) == 1:
                return [self._refused(*releases)]
            return [it for release in releases for it in self._rendered(target, [release])]
        return [_texts(texts) for texts in json.loads(text)]

    def _refused(self, release: Release) -> dict[str, str] | ChartRefusal:
        """Return what the whole chart, which has the schema, makes of a release."""
        try:
            with _failures():
                values, name, namespace = release
                return _texts(self._whole.render(values, name=name, namespace=namespace))
        except ChartRefusal as refusal:
            return refusal


def _over(defaults: Data, values: Data) -> Data:
    """Return values over the chart's defaults, as Helm coalesces them; the schema accepts no null
    where there is a default.
    """
    if not (isinstance(defaults, dict) and isinstance(values, dict)):
        return values
    return defaults | {key: _over(defaults.get(key), value) for key, value in values.items()}


class OtherChart(Engine):
    """The embedded engine with another chart: its folder, or an archive of it.

    As for our own, values are checked by its compiled schema first, if that is possible.
    """

    def __init__(self, path: Path):
        helm_python = sdk.load()
        try:
            content = None if path.is_dir() else read_given(path)
            self._whole: Chart = (
                helm_python.Chart.load(path)
                if content is None
                else helm_python.Chart.load_archive(content)
            )
        except OSError as error:
            raise EngineError(f"{path} cannot be read: {error.strerror}") from error
        except helm_python.HelmError as error:
            raise EngineError(f"{path} is not a chart: {_line(str(error))}") from error
        self._bare = _without_schema(path, content)

    @property
    def version(self) -> str:
        return str(self._whole.version)

    def render(self, values: Mapping[str, Data], release: str, namespace: str) -> dict[str, str]:
        plain = yamlio.plain(values)
        with _failures():
            bare = self._bare if self._bare and self._bare.schema.accepts(plain) else None
            chart = bare.chart if bare else self._whole
            return _texts(chart.render(plain, name=release, namespace=namespace))


@dataclass(frozen=True, slots=True)
class _Bare:
    """A chart without its schema, and the schema."""

    chart: Chart
    schema: schema.Schema


def _without_schema(path: Path, content: bytes | None) -> _Bare | None:
    """Return a chart split from its schema; None without one, or if only Helm can compile it."""
    files = None if content is None else _archived(path, content)
    with suppress(OSError, ValueError, sdk.load().HelmError):
        text, chart = _bare_folder(path) if files is None else _bare_archive(files)
        compiled = schema.Schema(json.loads(text), ())
        if not compiled.defect:
            return _Bare(chart, compiled)
    return None


def _archived(path: Path, content: bytes) -> dict[str, bytes]:
    from trainwright.helm import archives

    try:
        return archives.files(content)
    except ValueError as error:
        raise EngineError(f"{path} is not a chart: {error}") from error


def _bare_folder(path: Path) -> tuple[bytes, Chart]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="trainwright-") as scratch:
        folder = shutil.copytree(path, Path(scratch, "chart"))
        text = (folder / _SCHEMA).read_bytes()
        (folder / _SCHEMA).unlink()
        return text, sdk.load().Chart.load(folder)


def _bare_archive(files: Mapping[str, bytes]) -> tuple[bytes, Chart]:
    from trainwright.helm import archives

    (name,) = {name for name in files if PurePosixPath(name).parts[1:] == (_SCHEMA,)}
    others = {other: content for other, content in files.items() if other != name}
    return files[name], sdk.load().Chart.load_archive(archives.packed(others))


@contextmanager
def _failures() -> Iterator[None]:
    """Turn the errors that Helm's library raises into those of an engine."""
    helm_python = sdk.load()
    try:
        yield
    except (helm_python.HelmValuesError, helm_python.HelmRenderError) as error:
        raise ChartRefusal(_reason(str(error))) from error
    except helm_python.HelmError as error:
        raise EngineError(f"Helm failed: {error}") from error


def _texts(rendered: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each template that is not empty, by its file name."""
    return {
        path.rpartition("/")[2]: text.strip() + "\n"
        for path, text in rendered.items()
        if path.endswith(".yaml") and text.strip()
    }


class Binary(Engine):
    """`helm template`, one process per job."""

    def __init__(self, binary: str):
        self._binary = binary if Path(binary).name == binary else str(Path(binary).absolute())

    def render(self, values: Mapping[str, Data], release: str, namespace: str) -> dict[str, str]:
        import tempfile  # with subprocess 10 ms, which the embedded engine does not need

        with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
            command = [self._binary, "template", release, str(own_chart.FOLDER)]
            command += ["--namespace", namespace, "--values", "-", "--output-dir", folder]
            self._run(command, json.dumps(values), folder)
            paths = sorted(Path(folder).rglob("*.yaml"))
            texts = {path.name: _strip_source(path.read_text(encoding="utf-8")) for path in paths}
        return {name: text for name, text in texts.items() if text.strip()}

    def _run(self, command: list[str], stdin: str, folder: str) -> None:
        import subprocess

        try:
            done = subprocess.run(  # noqa: S603 - an argument list, and no shell
                command,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
                cwd=folder,  # nothing of the checkout is at hand
                env={**os.environ, "PATH": absolute_path()},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"{self._binary} could not be run: {error}") from error
        if done.returncode != 0 and "Error:" not in done.stderr:
            raise EngineError(f"{self._binary} ended with {done.returncode} and did not say why")
        if done.returncode != 0:
            raise ChartRefusal(_reason(done.stderr))


_SOURCE = re.compile(r"\A---\n# Source: [^\n]*\n")


def _strip_source(text: str) -> str:
    """Return the text without the two lines that `helm template` puts before each file."""
    return _SOURCE.sub("", text).strip() + "\n"


def _reason(text: str) -> str:
    """Return Helm's message without its call stack of templates."""
    return _line(text.strip().rpartition("error calling fail: ")[2])


def _line(text: str) -> str:
    return " ".join(text.split())
