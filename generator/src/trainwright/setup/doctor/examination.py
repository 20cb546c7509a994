"""Every check, in the order of the report: each is a function, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.errors import TrainwrightError
from trainwright.files.git import NoRepositoryError
from trainwright.render.build import BuildOptions
from trainwright.setup.doctor import branches
from trainwright.setup.doctor.charts import chart_sources
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, State, skipped
from trainwright.setup.doctor.engines import engines
from trainwright.setup.doctor.kueue import compared_kueue, kueue
from trainwright.setup.doctor.machine import cluster, git_command, helm_engine, python
from trainwright.setup.doctor.repository import clone, environments, hooks
from trainwright.setup.doctor.sources import compared_sources, sources
from trainwright.setup.doctor.wiring import wiring
from trainwright.setup.doctor.workflows import workflows

CHECKS: dict[str, Callable[[Examined], Iterator[Diagnosis]]] = {
    "python": python,
    "git": git_command,
    "helm": helm_engine,
    "environments": environments,
    "chart": chart_sources,
    "engine": engines,
    "branch": branches.followed,
    "wiring": wiring,
    "sources": sources,
    "clone": clone,
    "hooks": hooks,
    "workflow": workflows,
    "kueue": kueue,
    "cluster": cluster,
}
# The checks that replace those of the same name when clusters are queried.
LIVE = {"kueue": compared_kueue, "sources": compared_sources}


def examine(root: Path, options: BuildOptions, *, live: bool = False) -> tuple[Diagnosis, ...]:
    """Return what every check finds; one that cannot be made is an error, and stops no other."""
    examined = Examined(root, options)
    diagnoses: list[Diagnosis] = []
    for name, check in {**CHECKS, **(LIVE if live else {})}.items():
        found: list[Diagnosis] = []
        try:
            found += check(examined)
        except NoRepositoryError:  # which the check of the clone has as an error
            found.append(skipped("needs a git repository"))
        except TrainwrightError as error:
            found.append(Diagnosis(State.ERROR, str(error)))
        diagnoses += (replace(one, about=one.about or name) for one in found)
    return tuple(diagnoses)
