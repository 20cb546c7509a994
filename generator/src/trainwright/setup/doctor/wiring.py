"""Whether the committed wiring is that of the runs that are rendered now."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.layout import WIRING
from trainwright.datatypes.listing import listed
from trainwright.gitops.wiring import writing
from trainwright.gitops.wiring.survey import applied
from trainwright.runs.wiring_files import WIRE
from trainwright.runs.workspace import Workspace
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, skipped, warning


def wiring(examined: Examined) -> Iterator[Diagnosis]:
    """Yield a warning if files below wiring/ are not as `wire` writes them, or cannot be there yet,
    and an error for each reason for which it cannot write them.
    """
    if not (examined.root / WIRING).is_dir():
        yield from _of_none(examined.workspace)
        return
    files = writing.compared(examined.workspace)
    for refusal in files.refused:
        message = f"cannot be written: {refusal.message}"
        yield error(message, refusal.effect, refusal.remedy, refusal.place)
    effect = (
        "The engine applies what the files say: a run without a Kustomization of its own does not "
        "start."
    )
    for _, wrong, remedy in files.problems:
        yield warning(wrong, effect, f"{remedy} Commit the result.")
    if not (files.refused or files.stale):
        yield ok(f"{WIRING}/ is up to date")


def _of_none(workspace: Workspace) -> Iterator[Diagnosis]:
    """Yield a diagnosis for each environment that an engine applies, where there is no wiring/."""
    names = applied(workspace)
    read = [workspace.environments[name] for name in names if name in workspace.environments]
    unknown = [it for it in read if not it.gitops.repository.url]
    for it in unknown:
        yield warning(
            f"there is no {WIRING}/, and gitops.repository.url of {it.name} is not set",
            f"No engine applies {it.name}, unless what it reads is written elsewhere, by hand.",
            f"Set `gitops.repository.url` in environment.yaml, and run `{WIRE}`; or set "
            "`gitops.engine: none` if no engine is to apply it.",
            it.place,
        )
    if elsewhere := listed([name for name in names if name not in {it.name for it in unknown}]):
        yield skipped(f"there is no {WIRING}/: that of {elsewhere} is elsewhere, or not written")
    if not names:
        yield ok(f"there is no {WIRING}/, and no engine that needs it")
