"""What rules find in their samples: the messages of manifests, the reports of job specs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.api import Repository
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.yamlio import Document
from trainwright.kinds.subjects import subject_of
from trainwright.reports import text
from trainwright.reports.report import Report
from trainwright.reports.style import Style
from trainwright.rule_model.rule import Rule, Sample
from trainwright.rule_model.spec_sample import SpecSample
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs import resolve

_DIGEST = re.compile(r"(?<=-)[0-9a-f]{8}$")
_DAY = "2026-06-30"  # on which waivers are judged


class _JobWithPool:
    """All that rules read of a job."""

    def __init__(self, pool: object):
        self.pool = pool
        self.roles = ()


def environment(given: Mapping[str, Data] | None = None) -> Environment:
    """Return the environment of a sample. Unless it is about pod security, none is enforced."""
    data = {"namespace": "n", "kubernetes": {"version": "1.31"}, "targets": {"pytorchjob": {}}}
    keys = {**data, "podSecurity": "privileged", **(given or {})}
    return resolve.environment("prod", Document("environment.yaml", keys, {}, {}))


def subjects(sample: Sample) -> list[Subject]:
    """Return the objects of a sample, of a job in the first pool of its environment."""
    around = environment(sample.environment)
    manifests = tuple(Manifest(body=body) for body in sample.objects)
    pool = next(iter(around.pools.values()), None)
    job = _JobWithPool(pool) if pool else None
    return [subject_of(m, around, job, manifests) for m in manifests]  # type: ignore[arg-type]


def hits(rule: Rule, sample: Sample) -> list[tuple[Subject, Hit]]:
    """Return what a rule finds in the objects of a sample that are of its kinds."""
    return [
        (subject, hit)
        for subject in subjects(sample)
        if not rule.kinds or subject.kind in rule.kinds
        for hit in rule.run(subject)
    ]


def reported(rule: str, sample: SpecSample) -> str:
    """Return what a terminal shows of the first finding of a rule about a sample.

    The name of its object is shortened: the digits of a run change with the version of Trainwright.
    """
    files = sample.files(sample.fails)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        found = Repository(folder, today=_DAY).check().findings
    first = next(finding for finding in found if finding.rule == rule)
    shown = replace(first, manifest=_DIGEST.sub("…", first.manifest))
    sources = {name: tuple(content.splitlines()) for name, content in files.items()}
    report = Report(findings=(shown,), sources=sources, checked=())
    return text.render(report, Style(command="")).rpartition("\n\n")[0]
