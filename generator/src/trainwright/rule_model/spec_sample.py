"""Samples of a rule in a job spec: lines that break it and lines that do not, as people write them.

A rule that users of specs can meet has a file such as `specs/TW718.yaml`, whether it looks at
files, rendered objects or edits. Its lines stand in place of those of the same keys in an ordinary
job, `sample_job.yaml`, of an ordinary environment, `sample_environment.yaml`; or they are another
file beside these.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from trainwright.datatypes.frozen import dataclass
from trainwright.documents.yamlio import load_rendered

FOLDER = Path(__file__).parent / "specs"
JOB = "environments/prod/jobs/train.yaml"
ENVIRONMENT = "environments/prod/environment.yaml"

_KEY = re.compile(r"^(\w+):", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A mistake that a rule reports: spec lines with it and without, and what is reported."""

    of: str
    message: str
    remedy: str
    fails: str
    passes: str

    @property
    def reported(self) -> str:
        """The message and the remedy as a terminal shows them."""
        return f"{self.message}\n{self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecSample:
    """Lines of a job spec, or the text of another `file`, and lines of environment.yaml."""

    fails: str
    passes: str
    file: str = JOB
    environment: str = ""
    mistakes: tuple[Mistake, ...] = ()

    @property
    def title(self) -> str:
        return f"A {'job spec' if self.file == JOB else 'file'} that fails"

    def files(self, lines: str) -> dict[str, str]:
        """Return the files of a repository by path, with lines such as those that fail."""
        job = lines if self.file == JOB else ""
        whole = {JOB: _job_with(job), ENVIRONMENT: environment_with(self.environment)}
        return whole if self.file == JOB else {**whole, self.file: lines}


@cache
def spec_sample(rule: str) -> SpecSample | None:
    """Return the sample of spec lines for a rule's id, or None if it has none."""
    path = FOLDER / f"{rule}.yaml"
    if not path.exists():
        return None
    (data,) = load_rendered(path.read_text("utf-8"))
    mistakes = tuple(Mistake(**mistake) for mistake in data.pop("mistakes", ()))
    return SpecSample(**data, mistakes=mistakes)


def _job_with(lines: str) -> str:
    return _sample_with("sample_job.yaml", lines)


def environment_with(lines: str) -> str:
    """Return an ordinary environment with lines in place of those of the same keys."""
    return _sample_with("sample_environment.yaml", lines)


def _sample_with(name: str, lines: str) -> str:
    """Return a sample with some lines, in place of those that it has with the same keys."""
    ordinary = (FOLDER.parent / name).read_text("utf-8")
    keys = _KEY.findall(lines)
    kept = (one for one in ordinary.splitlines(True) if one.partition(":")[0] not in keys)
    return "".join(kept) + lines
