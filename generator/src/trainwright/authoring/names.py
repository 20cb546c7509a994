"""The names that specs share: pools, queues, Secrets, targets, volumes, bases, rules.

Each is written as a value somewhere, and declared somewhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainwright.authoring.place import Place, Target, layered, target
from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile, environment_path, job_of
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.findings.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.kinds import TARGETS
from trainwright.rule_model.edit import EditRule
from trainwright.rule_model.rule import Rule
from trainwright.specs import fabrics

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_DECLARED = (  # values of a spec, and the keys of environment.yaml that declare them
    (re.compile(r"/pool"), "pools"),
    (re.compile(r"/queue"), "queues"),
    (re.compile(r"/secrets/[^/]+/name"), "secrets"),
    (re.compile(r"/target"), "targets"),
)
DECLARING = frozenset(key for _, key in _DECLARED)
# Values of a spec that name one of the job's volumes.
VOLUME_NAMES = (Pointer("/checkpoint/volume"), Pointer("/checkpoint/peerCopies/volume"))
_RULE_KEYS = re.compile(r"/(?:waivers|severities)/[^/]+")
_FABRIC = re.compile(r"/pools/[^/]+/fabric")
_RULE_VALUES = re.compile(r"/waivers/[0-9]+/rule")


@dataclass(frozen=True, slots=True)
class Name:
    """A name that specs refer to, its description, and the file and pointer that declare it."""

    text: str
    about: str = ""
    path: str = ""
    pointer: Pointer = Pointer()

    def target(self, session: Session) -> Target | None:
        """Return where it is declared."""
        return target(session, self.path, self.pointer) if self.path else None


def declared_as(in_spec: Pointer | None) -> str:
    """Return the key of environment.yaml that declares what a spec's value names, or ""."""
    return next((key for at, key in _DECLARED if in_spec and at.fullmatch(in_spec)), "")


def possible(place: Place, pointer: Pointer, in_spec: Pointer | None) -> list[Name]:
    """Return the names that a value at a pointer of the file may refer to."""
    session = place.session
    if key := declared_as(in_spec):
        return list(declared(session, place.environment, key))
    if in_spec == "/extends":
        return list(_bases(session, place.path))
    if in_spec in VOLUME_NAMES:
        return list(_volumes(place))
    if _RULE_VALUES.fullmatch(pointer):
        return list(rules())
    return list(_fabrics()) if place.kind == "environment" and _FABRIC.fullmatch(pointer) else []


def is_known(place: Place, name: str) -> bool:
    """Whether any environment, or Trainwright itself, has what a value of a spec names."""
    key = declared_as(place.in_spec)
    return (key == "targets" and name in TARGETS) or any(
        other.text == name for other in (declared(place.session, "", key) if key else ())
    )


def possible_keys(parent: Pointer) -> list[Name]:
    """Return the names that may be keys of a mapping whose keys the schema does not list."""
    return list(rules()) if parent in ("/waivers", "/severities") else []


def declared(session: Session, environment: str, key: str) -> Iterator[Name]:
    """Yield what an environment declares under a key, or any environment, for a base."""
    names = (environment,) if environment else tuple(session.workspace.survey.jobs)
    seen: set[str] = set()
    for name in names:
        path = environment_path(name)
        for text, value in mapping(session.text(path).value(f"/{key}")).items():
            if text not in seen:
                seen.add(text)
                yield Name(text, describe(key, text, value), path, Pointer.of(key, text))


def describe(key: str, name: str, value: Data) -> str:
    """Return a description, paragraph by paragraph, of something that an environment declares."""
    declared = mapping(value)
    lines = [str(declared["description"])] if declared.get("description") else []
    if key == "targets" and name in TARGETS:
        lines.append(TARGETS[name].summary)
    facts = ("resource", "fabric", "gpusPerNode", "capacity", "pricePerGpuHour", "quota", "version")
    lines += [f"{fact}: {declared[fact]}" for fact in facts if fact in declared]
    return "\n\n".join(lines)


def _bases(session: Session, path: str) -> Iterator[Name]:
    """Yield every spec that may be extended, those that are nothing but bases first."""
    for file in only_bases(session):
        if file.path != path:
            yield base(session, file)
    for file in session.jobs():  # there may be thousands, so none is read
        if file.path != path:
            yield Name(str(file), "", file.path, Pointer("/name"))


def base(session: Session, file: JobFile) -> Name:
    """Return a spec that may be extended."""
    about = session.text(file.path).value("/description")
    return Name(str(file), str(about or ""), file.path, Pointer("/name"))


def only_bases(session: Session) -> Iterator[JobFile]:
    """Yield the specs that are of no environment, and there to be extended."""
    tree, environments = session.workspace.tree, session.workspace.survey.jobs
    for folder in tree.entries("environments"):
        inside = f"environments/{folder.name}/jobs"
        if folder.name not in environments and tree.kind(inside) == "folder":
            for entry in tree.entries(inside):
                if entry.kind == "file" and entry.name.endswith(".yaml"):
                    yield JobFile(folder.name, entry.name.removesuffix(".yaml"))


def _volumes(place: Place) -> Iterator[Name]:
    spec = layered(place.session, job_of(place.path)) if place.kind == "job" else None
    volumes = lookup(spec.data, "/volumes") if spec else place.text.value("/volumes")
    for name, value in mapping(volumes).items():
        mounted = mapping(value).get("mountPath")
        yield Name(name, f"mounted at {mounted}" if mounted else "")


def _fabrics() -> Iterator[Name]:
    """Yield the profiles of networks that are shipped."""
    for name in fabrics.names():
        if profile := fabrics.profile(name):
            needs = [f"Needs {what}." for what in profile.needs.installed]
            yield Name(name, "\n\n".join([f"{profile.summary}.", *needs, *profile.notes]))


def rules() -> Iterator[Name]:
    """Yield every rule that there is."""
    from trainwright.rules.edits.outcomes import EDIT_RULES
    from trainwright.rules.registry import RULES

    all_rules: list[Rule | EditRule | Diagnostic] = [*DIAGNOSTICS.values()]
    all_rules += [*RULES.values(), *EDIT_RULES.values()]
    for rule in all_rules:
        yield Name(rule.id, f"{rule.name}: {rule.summary}")


def rule_named(place: Place) -> str:
    """Return the rule whose id is pointed at; empty for anything else."""
    entry = place.entry
    if entry is None:
        return ""
    if _RULE_VALUES.fullmatch(entry.pointer):
        return str(place.value)
    return entry.pointer.last if _RULE_KEYS.fullmatch(entry.pointer) else ""
