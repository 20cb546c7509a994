"""The options, the result and the errors of publishing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.datatypes.errors import OutputError, TrainwrightError
from trainwright.datatypes.frozen import dataclass

if TYPE_CHECKING:
    from trainwright.render.build import Build, BuildOptions


class PublishError(OutputError):
    """The rendered files cannot be published; nothing was overwritten."""


class Unsound(TrainwrightError):
    """The specs of the commit have errors, which are in `build`."""

    def __init__(self, found: Build):
        super().__init__("the specs have errors")
        self.build = found


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Where to publish to.

    `branch` and `path` may contain {env}. An empty branch is the one that is checked out. An empty
    path is the place of rendered files beside their specs, "." the top of the branch. `remote` is
    the name of a remote or, if `elsewhere` is set, the URL or path of another repository.
    """

    build: BuildOptions
    branch: str = ""
    path: str = ""
    remote: str = "origin"
    elsewhere: bool = False
    push: bool = False
    discard_edits: bool = False
    dry_run: bool = False
    attempts: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result for one branch. `commit` is empty if none was made, and `message` is why."""

    branch: str
    environments: tuple[str, ...]
    commit: str = ""
    message: str
