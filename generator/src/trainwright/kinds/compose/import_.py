"""Compose files: each service is a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainwright.datatypes.model import Data, Location
from trainwright.kinds.compose.target import as_object
from trainwright.kinds.reading import Loss, Reader, Reason, SourceObject, mapping


def services(part: SourceObject) -> Iterator[tuple[str, SourceObject]]:
    """The object that stands for each service of a file, and the job's name."""
    for service, written in mapping(part.body.get("services")).items():
        file = {**part.body, "services": {service: written}}
        body: Mapping[str, Data] = as_object(file)
        project = part.body.get("name")
        name = f"{project}-{service}" if project else str(service)
        yield name, SourceObject(body=body, place=_inside(part), called=_named(part))


def is_file(body: Mapping[str, Data]) -> bool:
    """Whether a document is a compose file: it has services, and no kind."""
    return "kind" not in body and isinstance(body.get("services"), Mapping)


def _inside(part: SourceObject) -> Callable[[str], Location]:
    return lambda pointer: part.place(pointer.removeprefix("/spec"))


def _named(part: SourceObject) -> Callable[[str], str]:
    return lambda pointer: part.called(pointer.removeprefix("/spec"))


READER = Reader(
    is_file=is_file,
    inside=services,
    entrypoint="entrypoint",
    reasons=(
        Reason("/spec/version", "Compose itself ignores it", Loss.COSMETIC),
        Reason(
            "**/depends_on/**",
            "a job spec is one program: start what it needs on its own",
            Loss.CANNOT_RUN,
        ),
        Reason("**/ports/**", "metrics publishes a port, and nothing else does", Loss.BEHAVIOUR),
        Reason(
            "/spec/volumes/**",
            "a claim is a volume that is there: docker volume create makes one",
            Loss.COSMETIC,
        ),
        Reason(
            "**/tmpfs/**",
            "write it under volumes, as an emptyDir with medium: Memory",
            Loss.CANNOT_RUN,
        ),
        Reason("**/ipc", "shm sizes /dev/shm", Loss.COSMETIC),
        Reason("**/shm_size", "with ipc: host it is the machine's", Loss.COSMETIC),
        Reason(
            "**/networks/**", "there is one network, or none with network: isolated", Loss.BEHAVIOUR
        ),
        Reason(
            "**/env_file/**",
            "write its variables under env, and the secret ones under secrets",
            Loss.CANNOT_RUN,
        ),
        Reason(
            "**/environment/**",
            "its value is that of the shell that starts the container: write it under env, or the "
            "Secret that has it under secrets",
            Loss.CANNOT_RUN,
        ),
        Reason("**/build/**", "an image is built elsewhere, and pinned here", Loss.CANNOT_RUN),
    ),
)
