"""Which run records were written on this machine: one that is not committed yet was rendered from
sources that may have been edited since.

This is kept in the user's cache, where no repository can write, and proves nothing about
commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.layout import rendered_folder
from trainwright.files import lineage, memory
from trainwright.files.filetree import Changes, digest
from trainwright.runs.record import RECORD_FILE

_MOST = 20  # of one job
_Known = Mapping[str, Mapping[str, str]]  # by job and record, the commit that HEAD was then


def note(root: Path, environment: str, changes: Changes) -> None:
    """Remember the records that have been written for an environment."""
    by_job = dict(_load(root, environment))
    head = lineage.state(root).get("HEAD", "")
    for path, text in changes.written.items():
        job, _, name = path.partition("/")
        if name == RECORD_FILE:
            now = digest(text)
            before = {sha: at for sha, at in by_job.get(job, {}).items() if sha != now}
            by_job[job] = dict([*before.items(), (now, head)][-_MOST:])
    memory.write(_location(root, environment), json.dumps(by_job))


def records(root: Path, environment: str, job: str) -> Mapping[str, str]:
    """Return the commit of HEAD at the time each record of a job was written, by its SHA-256 sum.

    It is empty if there was no commit.
    """
    return _load(root, environment).get(job, {})


def _load(root: Path, environment: str) -> _Known:
    try:
        data: Data = json.loads(_location(root, environment).read_bytes())
        return {
            job: {str(sha): str(head) for sha, head in sums.items()} for job, sums in data.items()
        }
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _location(root: Path, environment: str) -> Path:
    return memory.location(root / rendered_folder(environment), "written")
