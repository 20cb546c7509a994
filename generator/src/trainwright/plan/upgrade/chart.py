"""What another chart renders from the values that a version of the tool writes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.layout import JobFile, rendered_folder
from trainwright.documents import yamlio
from trainwright.findings import diagnostics as dx
from trainwright.helm.engines import ChartRefusal, OtherChart
from trainwright.plan.upgrade import staging
from trainwright.plan.upgrade.model import Files, Outcome, Release
from trainwright.plan.upgrade.versions import Installed
from trainwright.runs.record import VALUES_FILE

_TOP = re.compile(r"\A(?:#.*\n)+")


def outcomes(
    chart: OtherChart,
    installed: Installed,
    made: Outcome,
    namespaces: Mapping[str, str],
    scratch: Path,
) -> tuple[Outcome, Outcome]:
    """Return the outcomes with the tool's own chart and the other, with their manifests' findings.

    `made` is in the folder "before" of `scratch`; `namespaces` are those of the environments.
    """
    texts, refusals = {}, []
    for job, files in made.next_runs.items():
        environment, _, name = job.partition("/")
        try:
            texts[job] = _rendered(chart, files, name, namespaces[environment])
        except ChartRefusal as refusal:
            refusals.append(_refused(JobFile(environment, name), str(refusal)))
    # Of what is the same in both, both find the same.
    for job in made.next_runs:
        if job in texts and _is_same(texts[job], made.next_runs[job]):
            shutil.rmtree(_folder(scratch / "before", job))
    shutil.copytree(scratch / "before", scratch / "after", symlinks=True)
    for job, files in texts.items():
        if not _is_same(files, made.next_runs[job]):
            _write(scratch / "after", job, files)
    findings = [
        tuple(staging.manifest_findings(installed, scratch / side, namespaces))
        for side in ("before", "after")
    ]
    before = replace(made, findings=(*made.findings, *findings[0]))
    after = replace(
        made,
        release=Release(made.release.tool, chart.version),
        next_runs=texts,
        findings=(*made.findings, *findings[1], *refusals),
    )
    return before, after


def _rendered(chart: OtherChart, files: Files, name: str, namespace: str) -> Files:
    (values,) = yamlio.load_rendered(files[VALUES_FILE])
    return {VALUES_FILE: files[VALUES_FILE], **chart.render(values, name, namespace)}


def _refused(file: JobFile, reason: str) -> Finding:
    message = f"the chart refuses the values: {reason}"
    return dx.CHART.at(Location(file.path), message, subject=str(file))


def _write(copy: Path, job: str, files: Files) -> None:
    """Replace the files of a job."""
    folder = _folder(copy, job)
    for path in folder.glob("*.yaml"):
        path.unlink()
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")


def _is_same(one: Files, other: Files) -> bool:
    """Whether two sets of files are the same apart from their leading comments."""
    bodies = ({file: _TOP.sub("", text) for file, text in side.items()} for side in (one, other))
    return next(bodies) == next(bodies)


def _folder(copy: Path, job: str) -> Path:
    """Where the files of a job are."""
    environment, _, name = job.partition("/")
    return copy / rendered_folder(environment) / name
