"""Where the files of a repository are, by the names of environments and jobs."""

from __future__ import annotations

from collections.abc import Container

from trainwright.datatypes.frozen import dataclass

ENVIRONMENTS = "environments"
ENVIRONMENT_FILE = "environment.yaml"
NO_ENVIRONMENT = (
    f"no environment below {ENVIRONMENTS}/: <env>/{ENVIRONMENT_FILE} makes one, see "
    "`trainwright init`"
)
RENDERED = "rendered"
WIRING = "wiring"  # beside environments: what an engine is told of them
OBJECTS = "objects"  # the user's own objects, applied beside the runs
ADOPTED = "adopted"  # objects that were in the cluster before they were in git


@dataclass(frozen=True, slots=True, order=True)
class JobFile:
    """A job spec that was found: `prod/llm` at environments/prod/jobs/llm.yaml."""

    environment: str
    name: str

    @property
    def path(self) -> str:
        return f"{ENVIRONMENTS}/{self.environment}/jobs/{self.name}.yaml"

    @property
    def rendered(self) -> str:
        """The folder of its rendered files, where these are beside the specs."""
        return f"{rendered_folder(self.environment)}/{self.name}"

    def __str__(self) -> str:
        return f"{self.environment}/{self.name}"


DEFAULTS = f"{ENVIRONMENTS}/defaults.yaml"


def rendered_folder(environment: str) -> str:
    """Where the rendered files of an environment are."""
    return f"{ENVIRONMENTS}/{environment}/{RENDERED}"


def rendered_job(path: str) -> JobFile | None:
    """The job in whose rendered folder a file is."""
    parts = path.split("/")
    return JobFile(parts[1], parts[3]) if len(parts) > 4 and parts[2] == RENDERED else None


def environment_path(name: str) -> str:
    """Where an environment's own file is."""
    return f"{ENVIRONMENTS}/{name}/{ENVIRONMENT_FILE}"


def environment_files(name: str) -> tuple[str, ...]:
    """The files that every job of an environment depends on, there or not."""
    return DEFAULTS, environment_path(name)


def is_wiring_of(path: str, environments: Container[str]) -> bool:
    """Whether a file of wiring is of one of these environments, or of all."""
    _, *folders, _ = path.split("/")
    return not folders or folders[0] in environments


def is_job(path: str) -> bool:
    """Whether a file would be the spec of a job, or of what jobs extend."""
    return path.startswith(f"{ENVIRONMENTS}/") and "/jobs/" in path


def job_of(path: str) -> JobFile:
    """The job that a file would be the spec of."""
    environment, _, name = path.removeprefix(f"{ENVIRONMENTS}/").partition("/jobs/")
    return JobFile(environment, name.removesuffix(".yaml"))
