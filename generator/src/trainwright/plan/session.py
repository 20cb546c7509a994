"""A plan that is kept up to date while files change: an edit costs only what it affects.

Each plan equals what a new session would find in the same files and commits.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from trainwright.files.entry import ignore_file
from trainwright.files.git import Settings
from trainwright.plan.comparison import Comparison
from trainwright.plan.merge import PlanOptions
from trainwright.plan.model import Plan


class PlanSession:
    """The plan of one repository, made again after each edit."""

    def __init__(self, root: Path, patterns: tuple[str, ...], options: PlanOptions):
        self._root = root
        self._patterns = patterns
        self._options = options
        self._edits: set[str] = set()  # since the last plan that could be made
        self._comparison: Comparison | None = None
        self._settings: Settings

    def plan(self, edits: Collection[str] = (), today: str = "") -> Plan:
        """Return the plan after these files and folders have changed on disk, as of a day."""
        self._edits.update(edits)
        options = replace(self._options, today=today or self._options.today)
        comparison = self._comparison
        if comparison is None or options != self._options or not comparison.merge.is_current():
            self._options, self._comparison = options, None
            self._settings = Settings(self._root)
            comparison = Comparison(self._root, self._patterns, options)
        elif not options.head:
            if self._settings.have_changed():
                self._edits.add(ignore_file(""))
            comparison.merge.edit(self._edits)
        new_plan = comparison.plan()
        self._comparison = comparison
        self._edits.clear()
        return new_plan
