"""Samples of a rule in a job spec: lines that break it and lines that do not, as people write them.

A rule that users of specs can meet has a file such as `specs/TW718.yaml`, whether it looks at
files, rendered objects or edits. Its lines belong in an ordinary job, the rest of which is in
`tests/generator/rules/test_spec_samples.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from trainwright.datatypes.frozen import dataclass
from trainwright.documents.yamlio import load_rendered

FOLDER = Path(__file__).parent / "specs"


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
    """Lines of a job spec and of environment.yaml."""

    fails: str
    passes: str
    environment: str = ""
    mistakes: tuple[Mistake, ...] = ()


@cache
def spec_sample(rule: str) -> SpecSample | None:
    """Return the sample of spec lines for a rule's id, or None if it has none."""
    path = FOLDER / f"{rule}.yaml"
    if not path.exists():
        return None
    (data,) = load_rendered(path.read_text("utf-8"))
    mistakes = tuple(Mistake(**mistake) for mistake in data.pop("mistakes", ()))
    return SpecSample(**data, mistakes=mistakes)
