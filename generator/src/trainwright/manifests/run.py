"""All manifests of a run, checked together: schemas, CEL, rules, and how they relate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.environment import Environment, GitOps
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.finding import Finding, Location, Related, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import plural
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.validation import kubernetes_schemas
from trainwright.findings import diagnostics as dx
from trainwright.kinds import SERVED
from trainwright.manifests import checking, crds, excerpts, reading, unfilled, unrendered
from trainwright.manifests.catalog import Catalog
from trainwright.manifests.checking import (
    FOR_TOOLS,
    CheckContext,
    CheckedText,
    UnknownKind,
)
from trainwright.manifests.parallel import look_at_all, undisturbed
from trainwright.manifests.reading import Chunk, Source
from trainwright.manifests.unrendered import Gathered
from trainwright.objects.bundle import Bundle
from trainwright.rules import deception
from trainwright.rules.gitops import duplicate_object
from trainwright.rules.policy import JobFindings, apply_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """How to check: `environment` gives facts and severities, if there is one.

    `kubernetes` is a minor version; empty for that of the environment, else the newest. `against`
    is a git revision: what differs from it is checked by the rules about changes.
    """

    today: str  # ISO date, for the expiry of waivers
    environment: Environment | None = None
    kubernetes: str = ""
    crds: Path | None = None
    against: str = ""
    need_schemas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFindings:
    """The findings, the lines of every file that one of them names, and the files checked."""

    findings: tuple[Finding, ...]
    sources: Mapping[str, tuple[str, ...]]
    files: tuple[str, ...]


@undisturbed()
def check(paths: tuple[str, ...], options: ManifestOptions) -> ManifestFindings:
    """Return the findings about all manifests below the paths ("-" is standard input).

    Raise SourceError if there are none.
    """
    environment = options.environment or nowhere(options.kubernetes or kubernetes_schemas.NEWEST)
    if options.kubernetes:
        environment = replace(environment, kubernetes_version=options.kubernetes)
    gathered = unrendered.gather(paths)
    sources = gathered.manifests
    if not sources:
        raise SourceError(_nothing(gathered))
    version, folder = environment.kubernetes_version, options.crds
    definitions, problems = crds.load(folder, version) if folder else ((), ())
    chunks = [chunk for source in sources for chunk in reading.split(source)]
    setting = CheckContext(
        environment=environment,
        catalog=Catalog(version, definitions),
        around=Bundle(_context(chunks)),
    )
    result = list(look_at_all(chunks, setting))
    findings = [
        *problems,
        *_unrendered(gathered),
        *(finding for checked in result for finding in checked.findings),
    ]
    unseen = [line for source in sources for line in excerpts.unseen(source)]
    findings += deception.elsewhere(unseen, findings)
    findings += _duplicates(chunks, result)
    if options.against:
        from trainwright.manifests import compared  # git and CEL, 30 ms that few need

        since = compared.Since(paths, options.against, with_crds=options.crds is not None)
        findings += compared.changed(since, chunks, result, setting)
    findings += _unknown(chunks, result, need=options.need_schemas)
    values = frozenset(_values(sources))
    findings = [f for f in findings if f.rule != dx.SHAPE.id or f.place.file not in values]
    findings = [*unfilled.together(chunks, findings)]
    findings = _after_policy(findings, environment, options.today)
    return ManifestFindings(
        findings=tuple(sorted(findings, key=lambda finding: finding.order)),
        sources=dict(excerpts.lines(sources, findings)),
        files=tuple(source.file for source in sources),
    )


def nowhere(kubernetes: str) -> Environment:
    """Return an environment without any facts, so that no rule can compare a manifest with it."""
    return Environment(
        name="",
        namespace="",
        place=Location(""),
        kubernetes_version=kubernetes,
        targets={},
        gitops=GitOps(engine="none"),
        pod_security="privileged",
    )


def environment(root: Path, name: str) -> Environment:
    """Return an environment of a repository. Raise SelectionError or SourceError if unusable."""
    from trainwright.files.tree import Folder  # 60 ms, and most manifests belong to none
    from trainwright.runs.workspace import Workspace

    return Workspace(Folder(root)).environment(name)


# --- how manifests relate ------------------------------------------------------------------------

# Kinds that need no other object to train. Any other object may be one that others refer to.
_LEAVES = "|".join(kind.kind for kind in SERVED.values() if not kind.refers)
_LEAF = re.compile(rf"""^kind:[ ]*["']?(?:{_LEAVES})["']?[ ]*$""".encode(), re.MULTILINE)


def _context(chunks: Sequence[Chunk]) -> Iterator[Manifest]:
    """Yield the objects that others may refer to; texts of what only trains are skipped."""
    for chunk in chunks:
        if not _LEAF.search(chunk.raw):
            yield from (manifest for _, _, manifest in reading.manifests(chunk))


def _duplicates(chunks: Sequence[Chunk], result: Sequence[CheckedText]) -> Iterator[Finding]:
    """Yield a finding at the second definition of an object that one application defines twice.

    Files in sibling folders are applied separately, like the overlays of several environments.
    """
    earlier: dict[tuple[str, str, str, str], list[tuple[Chunk, checking.ObjectLocation]]] = {}
    for chunk, checked in zip(chunks, result, strict=True):
        for seen in checked.seen:
            _, kind, _, name = seen.identity
            if not name:
                continue
            others = earlier.setdefault(seen.identity, [])
            before = next((other for other in others if _are_together(other[0], chunk)), None)
            if before is None:
                others.append((chunk, seen.at))
                continue
            yield duplicate_object.at(
                _name_of(chunk, seen.at),
                f"{kind}/{name} is described twice",
                manifest=f"{kind}/{name}",
                pointer="/metadata/name",
                related=(Related("first", "it is here already", _name_of(*before)),),
            )


def _are_together(first: Chunk, second: Chunk) -> bool:
    """Whether the folder of a file is that of another, or above it."""
    folders = [Path(chunk.file).parent for chunk in (first, second)]
    return folders[0] in (folders[1], *folders[1].parents) or folders[1] in folders[0].parents


def _name_of(chunk: Chunk, at: checking.ObjectLocation) -> Location:
    return checking.place(chunk, at._replace(pointer=f"{at.pointer}/metadata/name"))


_VALUES_FILE = "values.yaml"  # of render, which takes 60 ms to import
# Files beside manifests that are none, and that kustomize checks itself.
_BESIDE = frozenset(("kustomize.config.k8s.io", kind) for kind in ("Kustomization", "Component"))


def _values(sources: Sequence[Source]) -> Iterator[str]:
    """Yield the files of chart values that the record of one of our runs lists beside it."""
    for source in sources:
        path = Path(source.file)
        if source.found and path.name == _VALUES_FILE:
            from trainwright.runs import record as records  # 60 ms, and most are not ours

            with suppress(OSError):
                record = records.parse(path.with_name(records.RECORD_FILE).read_bytes())
                if record and path.name in record.files:
                    yield source.file


def _nothing(gathered: Gathered) -> str:
    whole = next(iter(gathered.wholes))
    return f"the {whole.title()} has no manifest that is checked as it is. {whole.remedy()}"


def _unrendered(gathered: Gathered) -> Iterator[Finding]:
    """Yield for each chart and kustomization how many files are left to Helm and kustomize."""
    for whole, count in gathered.wholes.items():
        files = plural(count, "file")
        message = f"skipped: {files} of the {whole.title()}, whose manifests are yet to be rendered"
        place = Location(whole.file, 1)
        yield dx.SHAPE.at(place, message, remedy=whole.remedy(), severity=Severity.NOTE)


def _unknown(
    chunks: Sequence[Chunk], result: Sequence[CheckedText], *, need: bool
) -> Iterator[Finding]:
    """Yield one finding per kind or rule that could not be checked, with the number of objects."""
    by_key: dict[tuple[str, ...], list[tuple[Chunk, UnknownKind]]] = {}
    for chunk, checked in zip(chunks, result, strict=True):
        for unknown in checked.unknown:
            if (unknown.api_version.partition("/")[0], unknown.kind) in _BESIDE:
                continue
            key = (unknown.api_version, unknown.kind, unknown.rule, unknown.reason)
            by_key.setdefault(key, []).append((chunk, unknown))
    for (api_version, kind, rule, reason), cases in by_key.items():
        chunk, unknown = cases[0]
        place = checking.place(chunk, unknown.at)
        objects = plural(len(cases), "object")
        if rule:
            text = " ".join(rule.split())
            yield dx.CEL_SKIPPED.at(place, f"{kind}: not evaluated: {text}: {reason}")
        else:
            message = f"skipped: no schema for {kind} of {api_version}, {objects}"
            missing = need and api_version.partition("/")[0] not in FOR_TOOLS
            yield dx.NO_SCHEMA.at(place, message, severity=Severity.ERROR if missing else None)


def _after_policy(
    findings: Sequence[Finding], environment: Environment, today: str
) -> list[Finding]:
    """Return the findings under the severities and waivers of the environment."""
    by_name: dict[str, list[Finding]] = {}
    for finding in findings:
        by_name.setdefault(finding.manifest.rpartition("/")[2], []).append(finding)
    checked = [JobFindings(name, tuple(group), ()) for name, group in by_name.items()]
    return list(apply_policy(environment, checked, today, whole=False))
