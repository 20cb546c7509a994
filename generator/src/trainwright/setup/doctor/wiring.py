"""Whether the committed wiring is that of the runs that are rendered now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainwright.datatypes.layout import WIRING
from trainwright.datatypes.listing import listed
from trainwright.gitops.wiring import writing
from trainwright.render.build import BuildOptions
from trainwright.setup.doctor.diagnosis import Diagnosis, State

_ABOUT = "wiring"


def wiring(root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    """Yield a warning if files below wiring/ are not as `wire` writes them."""
    if not (root / WIRING).is_dir():
        yield Diagnosis(about=_ABOUT, state=State.OK, message=f"there is no {WIRING}/")
    elif stale := writing.stale(root):
        yield Diagnosis(
            about=_ABOUT,
            state=State.WARNING,
            message=f"not up to date: {listed(stale, 3)}",
            effect="The engine applies what the files say: a run without a Kustomization of its "
            "own does not start.",
            remedy=f"Run `trainwright gitops wire --out {WIRING}`, and commit it.",
        )
    else:
        yield Diagnosis(about=_ABOUT, state=State.OK, message=f"{WIRING}/ is up to date")
