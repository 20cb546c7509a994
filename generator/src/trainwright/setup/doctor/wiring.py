"""Whether the committed wiring is that of the runs that are rendered now."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.layout import WIRING
from trainwright.datatypes.listing import listed
from trainwright.gitops.wiring import writing
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, warning


def wiring(examined: Examined) -> Iterator[Diagnosis]:
    """Yield a warning if files below wiring/ are not as `wire` writes them, or an error if it
    cannot write them.
    """
    if not (examined.root / WIRING).is_dir():
        yield ok(f"there is no {WIRING}/")
        return
    files = writing.compared(examined.workspace)
    if files.refused:
        refusal = files.refused[0]
        message = f"cannot be written: {refusal.message}"
        yield error(message, refusal.effect, refusal.remedy, refusal.place)
    elif files.stale:
        yield warning(
            f"not up to date: {listed(files.stale, 3)}",
            "The engine applies what the files say: a run without a Kustomization of its own does "
            "not start.",
            f"Run `trainwright gitops wire --out {WIRING}`, and commit it.",
        )
    else:
        yield ok(f"{WIRING}/ is up to date")
