"""Whether the committed wiring is that of the runs that are rendered now."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.layout import WIRING
from trainwright.datatypes.listing import listed
from trainwright.gitops.wiring import writing
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, ok, warning


def wiring(examined: Examined) -> Iterator[Diagnosis]:
    """Yield a warning if files below wiring/ are not as `wire` writes them."""
    if not (examined.root / WIRING).is_dir():
        yield ok(f"there is no {WIRING}/")
    elif stale := writing.stale(examined.workspace):
        yield warning(
            f"not up to date: {listed(stale, 3)}",
            "The engine applies what the files say: a run without a Kustomization of its own does "
            "not start.",
            f"Run `trainwright gitops wire --out {WIRING}`, and commit it.",
        )
    else:
        yield ok(f"{WIRING}/ is up to date")
