"""A plan that is kept up to date while files change: an edit costs only what it affects.

Each plan equals what a new session would find in the same files and commits.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.layout import RENDERED
from trainwright.files import git, lineage
from trainwright.files.entry import ignore_file
from trainwright.files.git import Differing, Settings
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Edited, Folder, Tree
from trainwright.plan.comparison import Comparison, PlanOptions, Revisions
from trainwright.plan.earlier import Earlier
from trainwright.plan.model import Plan
from trainwright.plan.revision import Revision
from trainwright.render.derivation import Derivation
from trainwright.render.history import History


def plan(root: Path, patterns: tuple[str, ...], options: PlanOptions) -> Plan:
    """Return what merging `head` into `against` will do to the selected jobs.

    The base is the newest commit that both share, so that what others merged meanwhile does not
    appear to be undone; `behind` counts their commits.
    """
    return _Merge(root, patterns, options).plan()


class PlanSession:
    """The plan of one repository, made again after each edit."""

    def __init__(self, root: Path, patterns: tuple[str, ...], options: PlanOptions):
        self._root = root
        self._patterns = patterns
        self._options = options
        self._edits: set[str] = set()  # since the last plan that could be made
        self._merge: _Merge | None = None
        self._settings: Settings

    def plan(self, edits: Collection[str] = (), today: str = "") -> Plan:
        """Return the plan after these files and folders have changed on disk, as of a day."""
        self._edits.update(edits)
        options = replace(self._options, today=today or self._options.today)
        merge = self._merge
        if merge is None or options != self._options or not merge.is_current():
            self._options, self._merge = options, None
            self._settings = Settings(self._root)
            merge = _Merge(self._root, self._patterns, options)
        elif not options.head:
            if self._settings.have_changed():
                self._edits.add(ignore_file(""))
            merge.edit(self._edits)
        new_plan = merge.plan()
        self._merge = merge
        self._edits.clear()
        return new_plan


class _Merge:
    """The merge of a commit, or of the working tree, into another commit."""

    def __init__(self, root: Path, patterns: tuple[str, ...], options: PlanOptions):
        """Set up the comparison of both sides from scratch."""
        self._options = options
        self._repository, inside = repository, _ = git.find(root)
        self._names = (options.against, options.head or "HEAD")
        self._commits = repository.commits(self._names)
        base = repository.merge_base(*self._names)
        head = repository.commit(options.head) if options.head else None
        behind = repository.line("rev-list", "--count", f"{base}..{options.against}", "--")
        self._revisions = Revisions(base=base, head=head or "", behind=int(behind))
        self._differing = Differing(repository, base, inside, head)
        below: Tree = repository.tree(head, inside, later=RENDERED) if head else Folder(root)
        below = Edited(below, options.edits) if options.edits else below
        before, tree = (
            Tracked(it) for it in (repository.tree(base, inside, later=RENDERED), below)
        )
        side = Revision(before)
        after, changed = Revision(tree, earlier=side), self._changed()
        branch = lineage.find(root, base, options.head or "HEAD")
        assert branch is not None  # since it has a base
        derivation = Derivation(
            root, branch, after, options.helm, on_disk=not options.head, changed=changed
        )
        self._compared = Comparison(
            before=side,
            after=after,
            proof=derivation,
            patterns=patterns,
            options=options,
            earlier=Earlier(repository, base, inside),
            history=History(root, tip=head or "HEAD"),
        )

    def plan(self) -> Plan:
        return self._compared.plan(self._revisions)

    def is_current(self) -> bool:
        """Whether both revisions still are the commits that they were."""
        now = self._repository.commits(self._names)
        return self._commits == now and now.keys() == {*self._names}

    def edit(self, edits: Set[str]) -> None:
        """Compare again, keeping whatever the edits of files on disk do not affect."""
        changed = self._changed(edits)
        # What git ignores may have changed without an edit to the files that are ignored now.
        self._compared.edit(edits | (changed ^ self._compared.changed), changed)

    def _changed(self, edits: Collection[str] = ()) -> frozenset[str]:
        """The files that are not as in the base, once these were edited."""
        return self._differing.paths(edits) | self._options.edits.keys()
