"""What has to be in the GitHub workflows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import lookup
from trainwright.documents.yamlio import Document, parse
from trainwright.files import git
from trainwright.setup.doctor.branches import Branches
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, warning
from trainwright.setup.init.repository import SOURCE

WORKFLOWS = ".github/workflows"
_ACTION = re.compile(r"(?P<name>[\w.-]+/trainwright)@(?P<ref>.+)")
_RELEASE = re.compile(r"v\d+\.\d+\.\d+")
# https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#filter-pattern-cheat-sheet
_PATTERN = frozenset("*?+[]!")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def workflows(examined: Examined) -> Iterator[Diagnosis]:
    repository, _ = git.around(examined.root)
    folder = repository.folder / WORKFLOWS
    own = _is_the_action(repository.folder / "action.yml")
    files = sorted(path for path in folder.glob("*.y*ml") if path.is_file())
    uses = [use for path in files for use in _uses(path, own)]
    reviews = [use for use in uses if use.reviews]
    if not reviews:
        yield warning(
            "no workflow reviews pull requests",
            "What merging does is nowhere to be read, and mistakes are merged.",
            "Use the action trainwright/trainwright on pull_request: docs/ci.md.",
        )
    complaints = [complaint for use in uses for complaint in _complaints(use)]
    complaints += _for_no_branch(reviews, Branches.of(repository))
    yield from complaints
    if reviews and not complaints:
        yield ok(reviews[0].file)


def _is_the_action(file: Path) -> bool:
    document = parse(file.name, file.read_bytes()) if file.is_file() else None
    return isinstance(document, Document) and document.data.get("name") == "Trainwright"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """A step of a workflow that uses the action, in the job that it is in."""

    document: Document
    job: str  # pointer
    step: str  # pointer

    @property
    def file(self) -> str:
        return self.document.file

    @property
    def given(self) -> Mapping[str, Data]:
        """The action's inputs."""
        return mapping(lookup(self.document.data, f"{self.step}/with"))

    @property
    def reviews(self) -> bool:
        on = self.document.data.get("on")
        events = on if isinstance(on, list | dict) else [on]
        return "pull_request" in events and str(self.given.get("install-only")).lower() != "true"

    @property
    def permissions(self) -> Data:
        """The permissions of the job's token, or None if the file does not set them."""
        of_job = lookup(self.document.data, f"{self.job}/permissions")
        return self.document.data.get("permissions") if of_job is None else of_job


def _uses(path: Path, own: bool) -> Iterator[_Use]:
    """Yield every step of a workflow that uses the action; if `own`, `./` is the action as well."""
    document = parse(f"{WORKFLOWS}/{path.name}", path.read_bytes())
    if not isinstance(document, Document):
        return
    for name, job in mapping(document.data.get("jobs")).items():
        steps = mapping(job).get("steps")
        for index, step in enumerate(steps if isinstance(steps, list) else []):
            uses = str(mapping(step).get("uses"))
            if _ACTION.fullmatch(uses) or (own and uses == "./"):
                pointer = f"/jobs/{name}"
                yield _Use(document=document, job=pointer, step=f"{pointer}/steps/{index}")


def _own_release(uses: str) -> bool:
    """Whether it is a release of who publishes this program, as `init` writes it.

    An account that can move that tag can publish other code under it as well.
    """
    return bool(_RELEASE.fullmatch(uses.removeprefix(f"{SOURCE}@")))


def _complaints(use: _Use) -> Iterator[Diagnosis]:
    uses = str(lookup(use.document.data, f"{use.step}/uses"))
    action = _ACTION.fullmatch(uses)
    if action and not _COMMIT.fullmatch(action["ref"]) and not _own_release(uses):
        yield warning(
            f"{uses} can be moved",
            "An account that can move the tag runs code with this workflow's token.",
            f"Write the commit instead: git ls-remote https://github.com/{action['name']} "
            f"{action['ref']}",
            use.document.place(f"{use.step}/uses"),
        )
    if not use.reviews:
        return
    if not _fetches_enough(use):
        yield error(
            "the checkout is shallow",
            "The plan finds no commit to compare with, and the job fails.",
            "Give actions/checkout `fetch-depth: 0`.",
            use.document.place(use.job),
        )
    if str(use.given.get("comment")).lower() != "false" and not _may_comment(use.permissions):
        yield warning(
            "the job may not comment",
            "The plan is in the job summary alone.",
            "Give the job `permissions: {contents: read, pull-requests: write, "
            "security-events: write}`.",
            use.document.place(use.job),
        )


def _for_no_branch(uses: list[_Use], branches: Branches) -> Iterator[Diagnosis]:
    """Yield a warning for each workflow that reviews pull requests only into branches that do not
    exist. Patterns are not judged, as they may match any branch.
    """
    for use in uses:
        event = "/on/pull_request/branches"
        wanted = lookup(use.document.data, event)
        names = [str(name) for name in (wanted if isinstance(wanted, list) else [wanted]) if name]
        if names and not _PATTERN.intersection("".join(names)) and branches.lacks(names):
            yield warning(
                f"it runs for {listed(names)}: there is {listed(sorted(branches.names))}",
                "No pull request is checked.",
                "Name the branch that pull requests go into, or leave `branches` out.",
                use.document.place(event),
            )


def _fetches_enough(use: _Use) -> bool:
    """Whether a checkout before has at least both sides of the merge."""
    for step in lookup(use.document.data, f"{use.job}/steps"):
        if str(mapping(step).get("uses")).startswith("actions/checkout@"):
            depth = str(mapping(mapping(step).get("with")).get("fetch-depth", 1))
            return not depth.isdigit() or int(depth) != 1
    return True


def _may_comment(permissions: Data) -> bool:
    if isinstance(permissions, dict):
        return bool(permissions.get("pull-requests") == "write")
    return bool(permissions == "write-all")
