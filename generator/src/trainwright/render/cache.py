"""The cache of what the last check found about each job: an unchanged job then costs two hashes.

The cache is outside the repository, is keyed by everything that decides a job's output, and may
be deleted at any time. It holds hashes and findings, never rendered text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Waiver
from trainwright.datatypes.finding import Finding, Location, Related, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.files import memory
from trainwright.files.memory import Kept

if TYPE_CHECKING:
    from trainwright.render.job import Rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The cached outcome of one job: input states by path (see load), findings and waivers."""

    inputs: Mapping[str, str]
    findings: tuple[Finding, ...]
    waivers: tuple[Waiver, ...]


def outcome(rendered: Rendered, inputs: Mapping[str, str]) -> Remembered:
    """Return what is cached of a job that was rendered of these inputs."""
    return Remembered(inputs=inputs, findings=rendered.findings, waivers=rendered.waivers)


def of(root: Path, environment: str, engine: str) -> Kept[Remembered]:
    """Return what is cached about the jobs of an environment, by name."""
    path = memory.location(root, environment)
    return Kept(path, memory.fingerprint(engine), _remembered, _plain)


def _plain(job: Remembered) -> Data:
    plain: Data = {}
    if job.findings:
        plain["findings"] = [asdict(finding) for finding in job.findings]
    if job.waivers:
        plain["waivers"] = [asdict(waiver) for waiver in job.waivers]
    return plain


def _remembered(inputs: Mapping[str, str], data: Data) -> Remembered:
    return Remembered(
        inputs=inputs,
        findings=tuple(_findings(data.get("findings", ()))),
        waivers=tuple(
            Waiver(**{**waiver, "place": Location(**waiver["place"])})
            for waiver in data.get("waivers", ())
        ),
    )


def _findings(items: Iterable[Data]) -> Iterable[Finding]:
    for item in items:
        related = tuple(
            Related(r["label"], r["text"], Location(**r["place"]) if r["place"] else None)
            for r in item["related"]
        )
        converted = {
            "severity": Severity(item["severity"]),
            "place": Location(**item["place"]),
            "path": Pointer(item["path"]),
            "related": related,
        }
        yield Finding(**{**item, **converted})
