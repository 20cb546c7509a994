"""What has to be in the repository, and how it has to be cloned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainwright.datatypes.finding import Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, RENDERED
from trainwright.datatypes.listing import plural
from trainwright.files import git
from trainwright.render import build as plan
from trainwright.render.build import BuildOptions
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import RECORD_FILE
from trainwright.setup.doctor import ignored
from trainwright.setup.doctor.diagnosis import Diagnosis, State
from trainwright.specs.ledger import LEDGER_FILE

HOOKS = ".pre-commit-config.yaml"


def environments(root: Path, options: BuildOptions) -> Iterator[Diagnosis]:
    made = plan.build(root, (), options)
    errors = sum(finding.severity is Severity.ERROR for finding in made.findings)
    jobs, names = len(made.jobs), ", ".join(e.name for e in made.environments)
    if errors:
        yield Diagnosis(
            about="environments", state=State.ERROR, message=f"{plural(errors, 'error')} in specs",
            effect="Nothing is rendered.",
            remedy="Run `trainwright check`, which shows each at its line.",
        )  # fmt: skip
        return
    if not names:
        yield Diagnosis(
            about="environments", state=State.ERROR, message=f"no environment in {ENVIRONMENTS}/",
            remedy=f"Write {ENVIRONMENTS}/<env>/environment.yaml, or let `trainwright init` do it.",
        )  # fmt: skip
        return
    yield Diagnosis(
        about="environments", state=State.OK, message=f"{names}, with {plural(jobs, 'job')}"
    )
    stale = sum(len(c.written) + len(c.removed) for e in made.environments if (c := e.changes))
    if stale:
        yield Diagnosis(
            about="rendered", state=State.ERROR,
            message=f"{plural(stale, 'file')} not as the specs render",
            effect="What is applied differs from the specs.",
            remedy="Run `trainwright render` and commit the result.",
        )  # fmt: skip
    else:
        yield Diagnosis(about="rendered", state=State.OK, message="as the specs render")


def clone(root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    repository, _ = git.find(root)
    if repository.line("rev-parse", "--is-shallow-repository") == "true":
        yield Diagnosis(
            about="clone", state=State.WARNING, message="shallow: a part of the history only",
            effect="plan may not find the commit that a branch goes into.",
            remedy="Run `git fetch --unshallow`; in actions/checkout set `fetch-depth: 0`.",
        )  # fmt: skip
    else:
        yield Diagnosis(about="clone", state=State.OK, message="with all of its history")
    yield from ignored.diagnoses(root, repository)
    yield from _attributes(root)


def _index_files(root: Path) -> list[str]:
    paths = sorted((root / ENVIRONMENTS).glob(f"*/{RENDERED}/{KUSTOMIZATION_FILE}"))
    return [path.relative_to(root).as_posix() for path in paths]


@dataclass(frozen=True, slots=True)
class _Attribute:
    """A git attribute that a file of an environment should have; `wanted`: git's answers if so."""

    path: str  # below environments/<env>/
    pattern: str
    name: str
    wanted: tuple[str, ...]
    written: str
    message: str
    effect: str


_RECORD, _RECORDS = (f"{RENDERED}/{job}/{RECORD_FILE}" for job in ("job", "*"))
_ANYTHING = f"{RENDERED}/**"
_LIST = f"{RENDERED}/{KUSTOMIZATION_FILE}"
_ATTRIBUTES = (
    _Attribute(
        _LIST, _ANYTHING, "eol", ("lf",), "text eol=lf",
        "line ends of rendered files may change",
        "A clone on Windows has other bytes than those whose hashes are recorded.",
    ),
    _Attribute(
        _RECORD, _RECORDS, "linguist-generated", ("set", "true"), "linguist-generated=true",
        "records of runs are not marked as generated",
        "Reviews show them unfolded, before what people wrote.",
    ),
    _Attribute(
        _LIST, _LIST, "merge", ("union",), "merge=union",
        f"two branches that add jobs conflict in {KUSTOMIZATION_FILE}",
        "A merge stops at a conflict that `trainwright render` would resolve.",
    ),
    _Attribute(
        LEDGER_FILE, LEDGER_FILE, "merge", ("union",), "merge=union",
        f"two branches that retire runs conflict in {LEDGER_FILE}",
        "A merge stops, and a line that is lost in it trains a finished run again.",
    ),
)  # fmt: skip


def _attributes(root: Path) -> Iterator[Diagnosis]:
    files = _index_files(root)
    if not files:
        return
    folder = files[0].removesuffix(_LIST)
    wrong = [each for each in _ATTRIBUTES if not _has(root, folder, each)]
    for each in wrong:
        yield Diagnosis(
            about="attributes", state=State.WARNING, message=each.message, effect=each.effect,
            remedy=f"Write `{ENVIRONMENTS}/*/{each.pattern} {each.written}` into .gitattributes.",
        )  # fmt: skip
    if not wrong:
        message = "rendered files are marked, and lists merge by line"
        yield Diagnosis(about="attributes", state=State.OK, message=message)


def _has(root: Path, folder: str, attribute: _Attribute) -> bool:
    repository, inside = git.around(root)
    path = f"{inside}/{folder}{attribute.path}".lstrip("/")
    lines = repository.git("check-attr", "text", attribute.name, "--", path).decode().splitlines()
    text, value = (line.rpartition(": ")[2] for line in lines)
    return value in attribute.wanted or (attribute.name == "eol" and text == "unset")


def hooks(root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    repository, _ = git.around(root)
    hook = repository.folder / repository.line("rev-parse", "--git-path", "hooks/pre-commit")
    config = repository.folder / HOOKS
    if not config.is_file():
        yield Diagnosis(
            about="hooks", state=State.SKIPPED, message=f"no {HOOKS}: commits are not checked first"
        )
    elif not hook.exists():
        yield Diagnosis(
            about="hooks", state=State.WARNING, message=f"{HOOKS} is there, its hook is not",
            effect="Mistakes show in the pull request instead of at the commit.",
            remedy="Run `pip install pre-commit && pre-commit install`.",
        )  # fmt: skip
    else:
        yield Diagnosis(about="hooks", state=State.OK, message="installed")
