"""Programs that the runtime starts in the rendered run, in an image that may not have it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from trainwright.importing.equivalence.form import NormalForm
from trainwright.importing.source import Source
from trainwright.kinds.reading import Loss, NotImported
from trainwright.objects.pods.command import RUNTIME


def missing_runtime(source: Source, rendered: NormalForm, target: str) -> Iterator[NotImported]:
    """Yield the loss of what started the program, if the rendered pods need the runtime for it.

    KubeRay starts Ray on its nodes; pods of other kinds do it themselves.
    """
    module = RUNTIME[-1]
    started = rendered.pods[0].program.launcher in _OURS and source.target != target
    if started and not any(module in json.dumps(part.body) for part in source.parts):
        why = (
            f"in a {target} the package {module} starts Ray: install it into the image, or import "
            f"it into an environment with the target {source.target}"
        )
        yield NotImported("image", source.place, rendered.pods[0].image, why, Loss.CANNOT_RUN)


_OURS = ("trainwright", "ray")
