"""Compose files: each service is a job, or a role of the one that depends on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

from trainwright.datatypes.data import Data, dig, mapping, sequence, words
from trainwright.datatypes.finding import Location
from trainwright.datatypes.pointer import Pointer, lookup, scalars, with_value
from trainwright.kinds.compose import notation
from trainwright.kinds.compose.target import as_object
from trainwright.kinds.reading import (
    ImportingError,
    Loss,
    NotImported,
    Reader,
    SourceObject,
    reasons,
    shown,
)

_ADDRESS = re.compile(r"(?<![\w.-])([\w.-]++):\d")


def services(part: SourceObject) -> Iterator[tuple[str, SourceObject]]:
    """Yield the name and the object of each job: a service on which no other depends, together with
    the services that it depends on.
    """
    part, defaults = _with_defaults(part)
    _refuse_unset(part)
    part, renamed = _with_claims(part)
    written = mapping(part.body.get("services"))
    waits = {
        str(name): notation.dependencies(mapping(service).get("depends_on"))
        for name, service in written.items()
    }
    served = {name for others in waits.values() for name in others}
    for name, others in waits.items():
        if name not in served:
            _refuse_others(part, name, waits)
            _refuse_addresses(part, (name, *others), written)
            file = {**part.body, "services": {key: written[key] for key in (*others, name)}}
            body: Mapping[str, Data] = as_object(file)
            project = part.body.get("name")
            job = f"{project}-{name}" if project else name
            yield (
                job,
                SourceObject(
                    body=body,
                    place=_inside(part),
                    called=_named(part),
                    left=(
                        *defaults,
                        *renamed,
                        *_published(part, others, written),
                        *_of_the_machine(part, (*others, name), written),
                    ),
                ),
            )


def _of_the_machine(
    part: SourceObject, names: Iterable[str], written: Mapping[str, Data]
) -> Iterator[NotImported]:
    """Yield the services that have the /dev/shm of their machine: pods have one of their own."""
    for name in names:
        if mapping(written[name]).get("ipc") == "host":
            at = Pointer.of("services", name, "ipc")
            why = "the pod has shared memory of its own, without a limit: shm sets one"
            yield part.not_imported(at, "host", why)


def _with_defaults(part: SourceObject) -> tuple[SourceObject, list[NotImported]]:
    """Return a file with the defaults of its variables, and a note for each value that has some.

    An empty default of a container's variable stays: the shell is meant to have a value for it.
    """
    body: Data = part.body
    taken = []
    for pointer, value in scalars(part.body):
        replaced = notation.with_defaults(value) if isinstance(value, str) else value
        if replaced == value or ("environment" in pointer.parts and _is_empty(replaced)):
            continue
        body = with_value(body, pointer, replaced)
        why = "its default is taken; --set NAME=VALUE gives the variable another value"
        taken.append(part.not_imported(pointer, value, why, Loss.COSMETIC))
    return replace(part, body=body), taken


def _is_empty(written: Data) -> bool:
    return not str(written).rpartition("=")[2]


def _with_claims(part: SourceObject) -> tuple[SourceObject, list[NotImported]]:
    """Return a file whose named volumes have names of claims, and a note for each that had none."""
    body: Data = part.body
    named = dict(_named_volumes(part.body))
    claims = _claims(named.values())
    renamed = []
    for pointer, source in named.items():
        if claims[source] == source:
            continue
        text = str(lookup(part.body, pointer))
        body = with_value(body, pointer, f"{claims[source]}{text.removeprefix(source)}")
        why = (
            f"a cluster takes no such name: it is the claim {claims[source]} here, which has to be "
            "there with what the volume holds"
        )
        renamed.append(part.not_imported(pointer, text, why))
    return replace(part, body=body), renamed


def _named_volumes(body: Mapping[str, Data]) -> Iterator[tuple[Pointer, str]]:
    """Yield the name of each volume that a service mounts as a claim, after where it stands."""
    for service, written in mapping(body.get("services")).items():
        for at, volume in enumerate(sequence(mapping(written).get("volumes"))):
            pointer = Pointer.of("services", str(service), "volumes", at)
            long = volume if isinstance(volume, Mapping) else notation.long_volume(str(volume))
            source = long.get("source")
            served = dig(body, "volumes", source, "driver_opts") if source else None
            if long.get("type", "volume") == "volume" and source and not served:
                yield (pointer / "source" if long is volume else pointer), str(source)


def _claims(named: Iterable[str]) -> dict[str, str]:
    """Return a name of its own for the claim of each volume: the volume's, where it can be one."""
    claims = {name: name for name in named if _claim_name(name) == name}
    for name in dict.fromkeys(named):
        if name not in claims:
            wanted = _claim_name(name)
            numbered = (f"{wanted}-{number}" for number in count(2))
            taken = {*claims.values()}
            claims[name] = next(one for one in chain([wanted], numbered) if one not in taken)
    return claims


def _claim_name(volume: str) -> str:
    """Return a name as Kubernetes takes it: the volume's own, where it is one."""
    labels = (_NOT_IN_LABELS.sub("-", label).strip("-") for label in volume.lower().split("."))
    return ".".join(filter(None, labels)) or "volume"


_NOT_IN_LABELS = re.compile(r"[^a-z0-9]+")
_READ_ELSEWHERE = frozenset({"environment", "build", "env_file", "labels"})


def _refuse_unset(part: SourceObject) -> None:
    """Raise ImportingError for variables of the shell, except those that are named one by one."""
    unset = {
        f"{part.called(pointer)} is {shown(pointer.last, value)}": notation.asked(value)
        for pointer, value in scalars(part.body)
        if pointer.parts[0] == "services"
        and _READ_ELSEWHERE.isdisjoint(pointer.parts)
        and isinstance(value, str)
        and notation.asked(value)
    }
    if unset:
        names = dict.fromkeys(name for asked in unset.values() for name in asked)
        raise ImportingError(
            f"{part.place('')}: the file has variables of the shell that starts it: "
            f"{', '.join(unset)}. Give their values with "
            f"{' '.join(f'--set {name}=…' for name in names)}"
        )


def _published(
    part: SourceObject, roles: Iterable[str], written: Mapping[str, Data]
) -> Iterator[NotImported]:
    """Yield a note for each port that roles publish on the host, which is not imported."""
    for role in roles:
        for at, port in enumerate(sequence(mapping(written[role]).get("ports"))):
            pointer = Pointer.of("services", role, "ports", at)
            yield part.not_imported(pointer, port, _NO_CALLERS)


_NO_CALLERS = (
    "a role is found by the containers of its run, and by nothing else: publish the port by a "
    "container of your own"
)


def _refuse_others(part: SourceObject, name: str, waits: Mapping[str, Mapping[str, str]]) -> None:
    """Raise ImportingError for services that a service needs, and that are no roles of its job."""
    for other, condition in waits[name].items():
        why = ""
        beside = [
            dependent
            for dependent, others in waits.items()
            if dependent != name and other in others
        ]
        if other not in waits:
            why = f"there is no service {other} in the file"
        elif condition == "service_completed_successfully":
            why = f"it starts once {other} has ended: run {other} before, as a job of its own"
        elif waits[other]:
            why = f"{other} itself waits for {' and '.join(waits[other])}, and roles start at once"
        elif beside:
            why = f"{other} serves {' and '.join(beside)} too, and a role serves one job"
        if why:
            place = part.place(Pointer.of("services", name, "depends_on"))
            raise ImportingError(
                f"{place}: {name} depends on a service that cannot be its role: {why}. Start what "
                "it needs on its own, or keep the file"
            )


def _refuse_addresses(
    part: SourceObject, together: Sequence[str], written: Mapping[str, Data]
) -> None:
    """Raise ImportingError if a service has the address of one that would be a job of its own."""
    apart = {str(other) for other in written} - {*together}
    for name in together:
        body = {key: value for key, value in mapping(written[name]).items() if key != "image"}
        for other in sorted(apart.intersection(_ADDRESS.findall("\n".join(words(body))))):
            raise ImportingError(
                f"{part.place(Pointer.of('services', name))}: {name} has an address of {other}, "
                f"which would be a job of its own, in a network of its own. Write "
                f"`depends_on: [{other}]`, so that it is a role, or keep the file"
            )


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
    reasons=reasons(__file__),
)
