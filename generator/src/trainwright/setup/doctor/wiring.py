"""Whether the committed wiring is that of the runs that are rendered now."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.layout import WIRING
from trainwright.datatypes.listing import listed
from trainwright.gitops.wiring import writing
from trainwright.gitops.wiring.survey import applied
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, warning


def wiring(examined: Examined) -> Iterator[Diagnosis]:
    """Yield a warning if files below wiring/ are not as `wire` writes them, and an error for each
    reason for which it cannot write them.
    """
    if not (examined.root / WIRING).is_dir():
        names = listed(applied(examined.workspace))
        elsewhere = f": that of {names} is elsewhere, or not written" if names else ""
        yield ok(f"there is no {WIRING}/{elsewhere}")
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
