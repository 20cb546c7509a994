"""A plan that is kept up to date while files change: an edit costs what it reaches.

Each one is what a new session would find in the same files and commits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.layout import RENDERED
from trainwright.files import git, lineage
from trainwright.files.entry import ignore_file
from trainwright.files.git import Differing, GitError, Settings
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Edited, Folder, Tree
from trainwright.plan.comparison import Comparison, PlanOptions, Revisions
from trainwright.plan.earlier import Earlier
from trainwright.plan.model import Plan
from trainwright.plan.revision import Revision
from trainwright.render.derivation import Derivation
from trainwright.render.history import History


def plan(root: Path, patterns: tuple[str, ...], options: PlanOptions) -> Plan:
    """What merging `head` into `against` will do to the selected jobs.

    The base is the newest commit that both share, so that what others merged meanwhile does not
    show as undone; `behind` counts their commits.
    """
    return PlanSession(root, patterns, options).plan()


class PlanSession:
    """The plan of one repository, again and again."""

    def __init__(self, root: Path, patterns: tuple[str, ...], options: PlanOptions):
        self._root = root
        self._patterns = patterns
        self._options = options
        self._edits: set[str] = set()  # since the last plan that could be made
        self._commits = ""
        self._revisions = Revisions(base="", head="", behind=0)
        self._compared: Comparison | None = None
        self._repository: git.Repository
        self._differing: Differing
        self._settings: Settings

    def plan(self, edits: Collection[str] = (), today: str = "") -> Plan:
        """The plan now that these files and folders have changed on disk, on a day."""
        self._edits.update(edits)
        options = replace(self._options, today=today or self._options.today)
        if self._compared is None or options != self._options or not self._is_current():
            self._options = options
            self._compared = None
            compared = self._begin()
        else:
            compared = self._compared
            self._go_on(compared)
        found = compared.plan(self._revisions)
        self._compared = compared
        self._edits.clear()
        return found

    def _is_current(self) -> bool:
        """Whether all revisions still are the commits that they were."""
        return self._commits != "" and self._commits == self._named()

    def _named(self) -> str:
        """The commits of both revisions; empty where there is none."""
        names = (self._options.against, self._options.head or "HEAD")
        try:
            return self._repository.line(
                "rev-parse", "--end-of-options", *(f"{name}^{{commit}}" for name in names)
            )
        except GitError:
            return ""

    def _begin(self) -> Comparison:
        """Compare two sides of which nothing is known."""
        options, (repository, inside) = self._options, git.find(self._root)
        self._repository, self._commits = repository, ""
        named = self._named()
        base = repository.merge_base(options.against, options.head or "HEAD")
        head = repository.commit(options.head) if options.head else None
        behind = repository.line("rev-list", "--count", f"{base}..{options.against}", "--")
        self._revisions = Revisions(base=base, head=head or "", behind=int(behind))
        self._settings = Settings(self._root)
        self._differing = Differing(repository, base, inside, head)
        below: Tree = repository.tree(head, inside, later=RENDERED) if head else Folder(self._root)
        below = Edited(below, options.edits) if options.edits else below
        before, tree = (
            Tracked(it) for it in (repository.tree(base, inside, later=RENDERED), below)
        )
        side = Revision(before)
        after, changed = Revision(tree, earlier=side), self._changed()
        branch = lineage.find(self._root, base, options.head or "HEAD")
        assert branch is not None  # since it has a base
        derivation = Derivation(
            self._root, branch, after, options.helm, on_disk=not options.head, changed=changed
        )
        compared = Comparison(
            before=side,
            after=after,
            proof=derivation,
            patterns=self._patterns,
            options=options,
            earlier=Earlier(repository, base, inside),
            history=History(self._root, tip=head or "HEAD"),
        )
        self._commits = named
        return compared

    def _changed(self, edits: Collection[str] = ()) -> frozenset[str]:
        """The files that are not as in the base, once these were edited."""
        return self._differing.paths(edits) | self._options.edits.keys()

    def _go_on(self, compared: Comparison) -> None:
        """Compare again, with what the edits do not reach as it was."""
        if self._options.head:
            return
        if self._settings.have_changed():
            self._edits.add(ignore_file(""))
        changed = self._changed(self._edits)
        # What git ignores may have changed without an edit of a file that is ignored now.
        compared.edit(self._edits | (changed ^ compared.changed), changed)
