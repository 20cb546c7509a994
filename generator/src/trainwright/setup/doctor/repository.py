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
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import RECORD_FILE
from trainwright.setup.doctor import ignored
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, skipped, warning
from trainwright.specs.ledger import LEDGER_FILE

HOOKS = ".pre-commit-config.yaml"


def environments(examined: Examined) -> Iterator[Diagnosis]:
    made = plan.build(examined.root, (), examined.options)
    errors = sum(finding.severity is Severity.ERROR for finding in made.findings)
    jobs, names = len(made.jobs), ", ".join(e.name for e in made.environments)
    if errors:
        remedy = "Run `trainwright check`, which shows each at its line."
        yield error(f"{plural(errors, 'error')} in specs", "Nothing is rendered.", remedy)
        return
    if not names:
        remedy = f"Write {ENVIRONMENTS}/<env>/environment.yaml, or let `trainwright init` do it."
        yield error(f"no environment in {ENVIRONMENTS}/", "", remedy)
        return
    yield ok(f"{names}, with {plural(jobs, 'job')}")
    stale = sum(len(c.written) + len(c.removed) for e in made.environments if (c := e.changes))
    if stale:
        yield error(
            f"{plural(stale, 'file')} not as the specs render",
            "What is applied differs from the specs.",
            "Run `trainwright render` and commit the result.",
            about="rendered",
        )
    else:
        yield ok("as the specs render", about="rendered")


def clone(examined: Examined) -> Iterator[Diagnosis]:
    try:
        repository, _ = git.find(examined.root)
    except git.NoRepositoryError:
        yield error(
            f"{examined.root} is not in a git repository",
            "No engine can apply what is rendered. `plan` and `gitops publish` have no commits to "
            "read, and `check` and `render` cannot compare rendered files with a base.",
            "Run `git init`, `git add --all` and `git commit` there, and push it.",
        )
        return
    if repository.line("rev-parse", "--is-shallow-repository") == "true":
        yield warning(
            "shallow: a part of the history only",
            "plan may not find the commit that a branch goes into.",
            "Run `git fetch --unshallow`; in actions/checkout set `fetch-depth: 0`.",
        )
    else:
        yield ok("with all of its history")
    yield from ignored.diagnoses(examined.root, repository)
    yield from _attributes(examined.root)


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
    """Yield a warning for each attribute that git lacks of rendered files and lists."""
    lists = sorted((root / ENVIRONMENTS).glob(f"*/{_LIST}"))
    if not lists:
        return
    folder = lists[0].relative_to(root).as_posix().removesuffix(_LIST)
    wrong = [each for each in _ATTRIBUTES if not _has(root, folder, each)]
    for each in wrong:
        remedy = f"Write `{ENVIRONMENTS}/*/{each.pattern} {each.written}` into .gitattributes."
        yield warning(each.message, each.effect, remedy, about="attributes")
    if not wrong:
        yield ok("rendered files are marked, and lists merge by line", about="attributes")


def _has(root: Path, folder: str, attribute: _Attribute) -> bool:
    repository, inside = git.around(root)
    path = f"{inside}/{folder}{attribute.path}".lstrip("/")
    lines = repository.git("check-attr", "text", attribute.name, "--", path).decode().splitlines()
    text, value = (line.rpartition(": ")[2] for line in lines)
    return value in attribute.wanted or (attribute.name == "eol" and text == "unset")


def hooks(examined: Examined) -> Iterator[Diagnosis]:
    repository, _ = git.around(examined.root)
    hook = repository.folder / repository.line("rev-parse", "--git-path", "hooks/pre-commit")
    config = repository.folder / HOOKS
    if not config.is_file():
        yield skipped(f"no {HOOKS}: commits are not checked first")
    elif not hook.exists():
        yield warning(
            f"{HOOKS} is there, its hook is not",
            "Mistakes show in the pull request instead of at the commit.",
            "Run `pip install pre-commit && pre-commit install`.",
        )
    else:
        yield ok("installed")
