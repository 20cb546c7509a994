"""Names that are cut to a limit and still differ wherever the full names do."""

from __future__ import annotations

import re

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.same import digest

LABEL = 63  # an ApplicationSet's name becomes a label of its Applications
_HASH = re.compile(r"-[0-9a-f]{8}\Z")  # ends the name of a run


def bounded(name: str, limit: int = LABEL) -> str:
    """Return the name, or its beginning and eight digits of its hash if it is too long."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 9].rstrip('-.')}-{digest(name.encode())[:8]}"


def wiring(environment: Environment) -> str:
    """Return the name of a GitOps engine's object: as unique in it as the environment's name."""
    return environment.gitops.name or bounded(f"training-{environment.name}")


def application_name(environment: Environment, job: str) -> str:
    """Return the name of the Application that applies a job."""
    name = wiring(environment)
    return f"{name}-{job}" if environment.gitops.applications == "job" else name


def kustomization(environment: Environment, job: str) -> str:
    """Return the name of the Kustomization of Flux that applies a job."""
    return bounded(f"{wiring(environment)}-{job}")


def job_of_run(run: str) -> str:
    """Return the name of the job of which a run has its name: `llm` for `llm-0a1b2c3d`."""
    return _HASH.sub("", run)


def release(environment: Environment, run: str) -> str:
    """Return the name of a run's HelmRelease."""
    return bounded(f"{wiring(environment)}-{run}")
