"""The words and the samples of a rule, which are data: `data/TW756.yaml` beside its module.

A file has two documents, the words and then the samples: a finding needs only the words, which are
read in a tenth of a millisecond, and tests, pages and `explain` read the rest. rule.schema.json has
the keys.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Cause, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.documents.yamlio import load_rendered
from trainwright.rule_model.upstream import upstream

_SEPARATOR = "\n---\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The texts of a rule: `summary` is what must hold; `effect` what happens otherwise; `remedy`
    what to do, ending in a full stop; `symptom` how a cluster shows what is wrong; `by_hand` the
    remedy for manifests without a job spec, if the other mentions one; `waive` when the finding may
    be accepted. `effects` are what happens in one form of the mistake, or to objects of one kind,
    where `effect` is about all of them. `source` is where this is documented, a URL or repository
    path, or `upstream` its row in upstream.yaml.
    """

    summary: str
    effect: str
    remedy: str
    symptom: str
    by_hand: str = ""
    waive: str = ""
    source: str = ""
    upstream: str = ""
    effects: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Documented(Cause):
    """The base of rules about objects and about edits. `data/` is next to the module `module`."""

    id: str  # stable for ever
    name: str  # kebab-case
    severity: Severity
    module: str

    @property
    def words(self) -> Words:
        return _words(self.module, self.id)

    @property
    def summary(self) -> str:
        return self.words.summary

    @property
    def effect(self) -> str:
        return self.words.effect

    @property
    def remedy(self) -> str:
        return self.words.remedy

    @property
    def symptom(self) -> str:
        return self.words.symptom

    @property
    def waive(self) -> str:
        return self.words.waive

    @property
    def source(self) -> str:
        words = self.words
        return upstream(words.upstream).source if words.upstream else words.source

    @property
    def samples(self) -> Mapping[str, Data]:
        """The second document of the file."""
        return _samples(self.module, self.id)


def file_of(rule: Documented) -> Path:
    return _path(rule.module, rule.id)


def _path(module: str, key: str) -> Path:
    return Path(sys.modules[module].__file__ or "").parent / "data" / f"{key}.yaml"


@cache
def _words(module: str, key: str) -> Words:
    text = _path(module, key).read_text("utf-8")
    (words,) = load_rendered(text.partition(_SEPARATOR)[0])
    return Words(**words)


@cache
def _samples(module: str, key: str) -> Mapping[str, Data]:
    text = _path(module, key).read_text("utf-8")
    (samples,) = load_rendered(text.partition(_SEPARATOR)[2])
    return samples


def objects(sample: Data) -> Iterator[Data]:
    """The objects of a sample, which is one or a list of them."""
    yield from sample if isinstance(sample, list) else [sample]
