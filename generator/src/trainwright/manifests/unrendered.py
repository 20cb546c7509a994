"""Files of a folder that are not manifests yet: a chart's templates, a kustomization's patches.

Helm renders what is in `templates/` (https://helm.sh/docs/topics/charts/), while `crds/` is applied
as it is. kustomize merges patches into resources and reads other files as configuration
(https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data, mapping, mappings, sequence
from trainwright.datatypes.frozen import dataclass
from trainwright.manifests import reading
from trainwright.manifests.reading import Source

_CHART = "Chart.yaml"
_VALUES = re.compile(r"values[^/]*\.(?:ya?ml|json)")
# Lists of files in a kustomization that are not resources.
_FILES = ("patchesStrategicMerge", "configurations", "transformers", "generators", "validators")


@dataclass(frozen=True, slots=True)
class Whole:
    """A Helm chart or a kustomization: its own file, and the command that prints its manifests."""

    file: str
    kind: str
    command: str

    def title(self) -> str:
        """Return its name in one line, by its folder."""
        return f"{self.kind} `{_folder(self.file)}`"

    def remedy(self) -> str:
        """Return how its manifests are checked."""
        return f"Check its manifests: `{self.command} | trainwright validate -`."


@dataclass(frozen=True, slots=True)
class Gathered:
    """The manifests below some paths, the files that are parts of a chart or kustomization, and how
    many parts each of these has.
    """

    manifests: tuple[Source, ...]
    parts: tuple[Source, ...]
    wholes: Mapping[Whole, int]  # how many files each has


def gather(paths: tuple[str, ...], *, named_templates: bool = False) -> Gathered:
    """Sort the files that `reading.gather` reads into manifests and parts of charts or
    kustomizations. A file given by its own path is always a manifest, except a Helm template with
    `named_templates`.
    """
    sources = reading.gather(paths)
    wholes = _wholes({source.file: source for source in sources if source.found})
    templates = [s for s in sources if (s.found or named_templates) and _acts(s)]
    wholes |= {s.file: _template(s.file) for s in templates if s.file not in wholes}
    manifests = tuple(source for source in sources if source.file not in wholes)
    parts = tuple(source for source in sources if source.file in wholes)
    counts: dict[Whole, int] = {}
    for whole in wholes.values():
        counts[whole] = counts.get(whole, 0) + 1
    return Gathered(manifests, parts, counts)


# A line of a Go template that is none of YAML's: {{- if .Values.gang }}, {{/* a comment */}}.
_ACTION = re.compile(
    rb"^[ \t]*\{\{-?[ \t]*"
    rb"(?:/\*|\$\w*[ \t]*:?=|(?:if|range|with|include|template|define|block|end)\b)",
    re.MULTILINE,
)


def _acts(source: Source) -> bool:
    """Whether a file holds Helm template actions, no matter which files are around it."""
    return b"{{" in source.raw and _ACTION.search(source.raw) is not None


def _template(path: str) -> Whole:
    """Return the chart of a template whose Chart.yaml is not among the files, by its folder."""
    above = PurePosixPath(path).parents
    charts = (folder.parent for folder in above if folder.name == "templates")
    return _chart(next(charts, above[0]))


def _chart(folder: PurePosixPath) -> Whole:
    return Whole(str(folder / _CHART), "Helm chart", f"helm template {shlex.quote(str(folder))}")


def _wholes(sources: Mapping[str, Source]) -> dict[str, Whole]:
    """Return the files that are part of a chart or of a kustomization, by path."""
    charts = {_folder(path) for path in sources if _name(path) == _CHART}
    wholes: dict[str, Whole] = {}
    if charts:  # most folders have none, and thousands of files
        wholes = {path: whole for path in sources if (whole := _chart_of(path, charts)) is not None}
    resources: set[str] = set()
    for path, source in sources.items():
        if _name(path) not in reading.KUSTOMIZATIONS or path in wholes:
            continue
        folder = _folder(path)
        whole = Whole(path, "kustomization", f"kustomize build {shlex.quote(folder)}")
        for content in map(mapping, _contents(source)):
            resources |= {_joined(folder, entry) for entry in _texts(content.get("resources"))}
            files = (_joined(folder, entry) for entry in _parts(content) if entry)
            wholes |= {file: whole for file in files if file in sources and file != path}
    return {path: whole for path, whole in wholes.items() if path not in resources}


def _contents(source: Source) -> Iterator[Data]:
    for chunk in reading.split(source):
        for _, content in reading.data(chunk):
            yield content


def _chart_of(path: str, charts: set[str]) -> Whole | None:
    """Return the outermost chart that has a file as a template, values or its description."""
    for above in reversed(PurePosixPath(path).parents):
        if str(above) in charts and _is_rendered(PurePosixPath(path).relative_to(above)):
            return _chart(above)
    return None


def _is_rendered(within: PurePosixPath) -> bool:
    """Whether Helm, not the cluster, reads a file of a chart. It renders templates/crds/, too."""
    folders = within.parts[:-1]
    if within.parts[0] in ("templates", "charts"):
        return "crds" not in folders or "templates" in folders[: folders.index("crds")]
    return str(within) == _CHART or _VALUES.fullmatch(str(within)) is not None


def _parts(content: Mapping[str, Data]) -> Iterator[str]:
    """Yield the files that a kustomization merges into resources, or reads as something else."""
    for key in ("patches", "patchesJson6902", "replacements"):
        yield from (str(entry.get("path", "")) for entry in mappings(content.get(key)))
    for key in _FILES:
        yield from _texts(content.get(key))
    yield str(mapping(content.get("openapi")).get("path", ""))
    for chart in mappings(content.get("helmCharts")):
        yield str(chart.get("valuesFile", ""))
        yield from _texts(chart.get("additionalValuesFiles"))
    for key in ("configMapGenerator", "secretGenerator"):
        for generator in mappings(content.get(key)):
            yield from (entry.rpartition("=")[2] for entry in _texts(generator.get("files")))


def _texts(entries: Data) -> Sequence[str]:
    return [entry for entry in sequence(entries) if isinstance(entry, str)]


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def _joined(folder: str, entry: str) -> str:
    return posixpath.normpath(posixpath.join(folder, entry))
