"""Findings about objects that differ from a git revision: what the edit does to live ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.manifests import checking, crd_edits, earlier
from trainwright.manifests.checking import CheckContext, CheckedText, UnknownKind
from trainwright.manifests.earlier import Pair
from trainwright.manifests.reading import Chunk
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes
from trainwright.rules.edits.outcomes import EditOutcome


@dataclass(frozen=True, slots=True)
class Since:
    """The revision that the files at some paths are compared with, by definitions too or not."""

    paths: tuple[str, ...]
    revision: str
    with_crds: bool


def changed(
    since: Since, chunks: Sequence[Chunk], result: Sequence[CheckedText], setting: CheckContext
) -> Iterator[Finding]:
    """Yield what our rules and the CRDs say about each edited object that keeps its identity.

    Rules that could not be evaluated are added to the unknowns of the text.
    """
    for pair in earlier.pairs(since.paths, chunks, since.revision):
        if not all(crd_edits.is_valid(setting.catalog, m) for m in (pair.before, pair.after)):
            continue
        findings = tuple(_refused(pair, since, chunks, result, setting)) if since.with_crds else ()
        yield from findings
        refused = tuple(f"{finding.pointer}/" for finding in findings)
        for outcome in outcomes.evaluate(pair.before, pair.after, setting.environment):
            below = f"{outcome.pointer}/".startswith(refused)  # inside of what the CRD refuses
            if outcome.verdict is not Verdict.IN_PLACE and not below:
                place = _place(pair, outcome.pointer, chunks)
                yield _becomes(outcome, pair.after, place, since.revision)


def _refused(
    pair: Pair,
    since: Since,
    chunks: Sequence[Chunk],
    result: Sequence[CheckedText],
    setting: CheckContext,
) -> Iterator[Finding]:
    after = pair.after
    for outcome in crd_edits.evaluate(setting.catalog, pair.before, after):
        if isinstance(outcome, crd_edits.Refusal):
            message = f"{outcome.message} (compared with {since.revision})"
            place = _place(pair, outcome.pointer, chunks)
            finding = outcome.finding(place, message, crd_edits.REMEDY)
            yield replace(finding, manifest=after.title, pointer=outcome.pointer)
        else:
            rule = UnknownKind(after.api_version, after.kind, pair.at, outcome.rule, outcome.reason)
            result[pair.chunk].unknown.append(rule)


def _becomes(outcome: EditOutcome, after: Manifest, place: Location, revision: str) -> Finding:
    message = f"{outcome.why} (compared with {revision})"
    return outcome.rule.at(place, message, manifest=after.title, pointer=outcome.pointer)


def _place(pair: Pair, pointer: str, chunks: Sequence[Chunk]) -> Location:
    at = pair.at._replace(pointer=pair.at.pointer + pointer)
    return checking.place(chunks[pair.chunk], at)
