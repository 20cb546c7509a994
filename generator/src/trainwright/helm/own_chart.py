"""The chart that renders: where it is, its version, and its archive for a target."""

from __future__ import annotations

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


def archive(folder: Path, target: str) -> bytes:
    """Return what a target needs of a chart, as the .tgz that Helm reads from memory.

    Templates for one target only have its name in front of the first dash: `job-service.yaml`.
    """
    from trainwright.helm import archives

    targets: list[str] = schema.chart_values().root["properties"]["target"]["enum"]
    others = set(targets) - {target}
    paths = [folder / "Chart.yaml", folder / "values.yaml"]
    for path in sorted((folder / "templates").iterdir()):
        owner = path.stem.lstrip("_").partition("-")[0]
        if path.name != "NOTES.txt" and owner not in others:
            paths.append(path)
    return archives.packed({p.relative_to(folder.parent).as_posix(): p.read_bytes() for p in paths})
