"""The chart that renders: where it is, its version, and its archive for a target."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.same import digest
from trainwright.documents import yamlio
from trainwright.documents.validation import schema

FOLDER = Path(__file__).parents[1] / "chart"


@cache
def _described() -> dict[str, Data]:
    (chart,) = yamlio.load_rendered((FOLDER / "Chart.yaml").read_text(encoding="utf-8"))
    return chart


def name() -> str:
    """Return the name of the chart that renders, by its Chart.yaml."""
    return str(_described()["name"])


def version() -> str:
    """Return the version of the chart that renders, by its Chart.yaml."""
    return str(_described()["version"])


@cache
def dir_hash() -> str:
    """Return the digest of what the chart renders with: Chart.yaml, values and templates.

    https://github.com/in-toto/attestation/blob/main/spec/v1/digest_set.md#dirhash
    """
    paths = (
        *FOLDER.glob("*.yaml"),
        *FOLDER.glob("values.schema.json"),
        *FOLDER.glob("templates/*"),
    )
    files = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in paths}
    sums = (f"{digest(raw)}  {name}\n" for name, raw in sorted(files.items()))
    return digest("".join(sums).encode())


# The texts of each of many releases, by template: Helm parses the templates once for all of them.
_ALL = """\
{{- $all := list }}
{{- range .Values.releases }}
{{- $release := merge (dict "Name" .name "Namespace" .namespace) $.Release }}
{{- $scope := merge (dict "Values" .values "Release" $release) (omit $ "Values" "Release") }}
{{- $texts := dict }}
{{- range $.Values.templates }}{{ $texts = set $texts . (include . $scope) }}{{ end }}
{{- $all = append $all $texts }}
{{- end }}
{{- toRawJson $all }}
"""


@cache
def defaults() -> dict[str, Data]:
    """Return the chart's own values."""
    (values,) = yamlio.load_rendered((FOLDER / "values.yaml").read_text(encoding="utf-8"))
    return values


def archive(templates: Iterable[Path]) -> bytes:
    """Return the chart for many releases at once, as the .tgz that Helm reads from memory.

    Its values are the `releases`, each with all of its values, and the names of the `templates`.
    """
    from trainwright.helm import archives

    texts = {"Chart.yaml": (FOLDER / "Chart.yaml").read_text(encoding="utf-8")}
    texts["templates/all.yaml"] = _ALL
    for path in templates:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".yaml":
            text = f'{{{{ define "{path.name}" }}}}{text}{{{{ end }}}}'
        texts[f"templates/_{path.name}"] = text
    return archives.packed({f"{name()}/{path}": text.encode() for path, text in texts.items()})


def templates(target: str) -> tuple[Path, ...]:
    """Return the templates that a target needs.

    Those for one target only have its name in front of the first dash: `job-service.yaml`.
    """
    targets: list[str] = schema.chart_values().root["properties"]["target"]["enum"]
    others = set(targets) - {target}
    return tuple(
        path
        for path in sorted((FOLDER / "templates").iterdir())
        if path.suffix in (".yaml", ".tpl")
        and path.stem.lstrip("_").partition("-")[0] not in others
    )
