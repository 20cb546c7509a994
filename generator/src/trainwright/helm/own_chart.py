"""The chart that renders: where it is, its version, and its archive for a target."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path

from trainwright.specs import schema, yamlio

FOLDER = Path(__file__).parents[1] / "chart"


@cache
def version() -> str:
    """The version of the chart that renders, as its Chart.yaml says."""
    (chart,) = yamlio.load_rendered((FOLDER / "Chart.yaml").read_text(encoding="utf-8"))
    return str(chart["version"])


def archive(folder: Path, target: str) -> bytes:
    """What rendering for a target needs of a chart, as the .tgz that Helm reads from memory.

    The templates of one target alone have its name up to the first dash: `job-service.yaml`.
    """
    import tarfile

    targets: list[str] = schema.chart_values().root["properties"]["target"]["enum"]
    others = set(targets) - {target}
    buffer = BytesIO()
    paths = [folder / "Chart.yaml", folder / "values.yaml"]
    for path in sorted((folder / "templates").iterdir()):
        owner = path.stem.lstrip("_").partition("-")[0]
        if path.name != "NOTES.txt" and owner not in others:
            paths.append(path)
    # Stored: it goes from memory to memory, where compressing and the reverse take half the time.
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=0) as archive:
        for path in paths:  # without the names of owners, which `add` asks the system for
            text = path.read_bytes()
            member = tarfile.TarInfo(path.relative_to(folder.parent).as_posix())
            member.size = len(text)
            archive.addfile(member, BytesIO(text))
    return buffer.getvalue()
