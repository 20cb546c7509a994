"""Why a value is left behind, in words that include the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data, is_accelerator, mapping
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import CONFIGMAP
from trainwright.datatypes.job import CONTAINER_FIELDS, POD_FIELDS
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.findings.credentials import HIDDEN, named, redact
from trainwright.findings.redaction import redact_words
from trainwright.importing import generated
from trainwright.importing.equivalence.comparison import in_every_pod, value_at
from trainwright.importing.equivalence.containers import places
from trainwright.kinds.reading import Loss, NotImported, Reason, reasons, shown, table
from trainwright.kinds.target import Deviation, in_group

if TYPE_CHECKING:
    from trainwright.importing.accounting import Account
    from trainwright.importing.equivalence.form import NormalForm
    from trainwright.importing.source import Source

_BY_POINTER = reasons(__file__)
_CREDENTIAL = "a credential is never copied: keep it in a Secret, and name that under secrets"
_POOL = (
    "its pods have no {0} without a pool: write one into environment.yaml, such as `pools: {{gpus: "
    "{{resource: {0}, gpusPerNode: 8}}}}`, and import it again"
)
_UNREAD = "a job spec has no field for it"
_PLACING = "the launcher and the target set it"
_OF_VOLUMES = re.compile(r".*/spec/volumes/\d+(/|$)")
_NAME = re.compile(r".*/containers/\d+/name")
_PORT = re.compile(r"(.*/containers/\d+/ports/\d+)(?:/.*)?", re.DOTALL)
_ENV = re.compile(r"(.*/env/\d+)(?:/.*)?", re.DOTALL)

# Which field of a spec decides a value of the normal form.
_DECIDED_BY = (
    *(
        (f"/pods/*/{where}/{key}/**", spelled(field))
        for field, key in POD_FIELDS.items()
        for where in ("placement", "rest/pod")
    ),
    *((f"/pods/*/rest/container/{key}/**", spelled(f)) for f, key in CONTAINER_FIELDS.items()),
    *table(__file__, "fields.yaml"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """The reasons for which values of a workload can be left behind.

    `refused` are the fields of the spec that the environment or the target refuses, and why.
    """

    source: Source
    rendered: NormalForm
    refused: Mapping[Pointer, str]
    deviations: tuple[Deviation, ...]
    namespace: str

    def left(self, accounts: tuple[Account, ...]) -> Iterator[NotImported]:
        """Yield what is left behind, a whole branch at once if all of it has the same reason."""
        for index, part in enumerate(self.source.parts):
            own = {a.pointer: a for a in accounts if a.part == index}
            why = {p: self._why(a) for p, a in own.items() if self._is_left(a)}
            for pointer in _branches(why, list(own)):
                reason = next(r for p, r in why.items() if p.within(pointer))
                value = lookup(part.body, pointer)
                is_secret = reason.why == _CREDENTIAL and isinstance(value, str)
                yield part.not_imported(
                    pointer,
                    HIDDEN if is_secret else value,
                    reason.why,
                    reason.severity or Loss.BEHAVIOUR,
                    name=_name(part.body, pointer),
                )

    def _is_left(self, account: Account) -> bool:
        if account.pointer == "/metadata/namespace":
            return bool(account.value != self.namespace)
        return account.fate == "left"

    def _why(self, account: Account) -> Reason:
        """Return the reason with the best remedy, with its severity for the run."""
        reason = next(self._known(account))
        severity = reason.severity or self._severity(account.changed)
        return reason._replace(pattern="", severity=severity)

    def _known(self, account: Account) -> Iterator[Reason]:
        at, changed = account.pointer, account.changed
        if _is_secret(self.source.parts[account.part].body, at):
            yield Reason("", _CREDENTIAL, Loss.CANNOT_RUN)
        if account.value is None and not changed:
            yield Reason("", "it has no value", Loss.COSMETIC)
        if self._places(account):
            yield Reason("", _PLACING, None if changed else Loss.COSMETIC)
        if at == "/metadata/namespace":
            yield Reason("", f"the environment's namespace is {self.namespace}", Loss.COSMETIC)
        yield from _generated(at)
        yield from self._emptied(changed)
        yield from self._restarts(changed)
        yield from self._of_one_size(changed)
        if changed == ("/suspended",) and self.rendered.queue:
            yield Reason("", "Kueue admits what waits in its queues", Loss.COSMETIC)
        if not changed and (_OF_VOLUMES.match(at) or self._is_of_config(account)):
            yield Reason("", "no container mounts it", Loss.COSMETIC)
        if self._is_partial(account):
            yield Reason("", "all pods of a run are there at once", Loss.BEHAVIOUR)
        yield from _matching(self.source.reasons, at)
        if lacking := next(filter(self._lacks, changed), None):
            yield Reason("", _POOL.format(lacking.last), Loss.CANNOT_RUN)
        yield from (Reason("", why) for why in self._of_the_environment(account))
        yield from self._named_by_target(account)
        yield from _matching(_BY_POINTER, at)
        yield from (Reason("", why, Loss.COSMETIC) for why in self._of_the_target(changed))
        yield Reason("", self._of_the_result(changed))

    def _named_by_target(self, account: Account) -> Iterator[Reason]:
        if _PORT.fullmatch(account.pointer) and not self._is_found_by_name(account):
            why = "the target sets the port of the rendezvous, metrics the others"
            yield Reason("", why, Loss.COSMETIC)
        if _NAME.fullmatch(account.pointer) and not _is_of_sidecar(account):
            yield Reason("", "the target names its container itself", Loss.COSMETIC)

    def _is_partial(self, account: Account) -> bool:
        """Whether fewer pods are to run at once than there are, as in a queue of work."""
        if account.pointer.last != "parallelism":
            return False
        holder = lookup(self.source.parts[account.part].body, account.pointer.parent)
        return bool(mapping(holder).get("completions", account.value) != account.value)

    def _emptied(self, changed: tuple[Pointer, ...]) -> Iterator[Reason]:
        """Yield a reason if a container kept volumes on restart that are empty in a new pod."""
        kept = [path for path in changed if "/restart/keeps" in path]
        if kept and not any(value_at(self.rendered, path) for path in kept):
            why = (
                "a container that failed was started again in its pod, and found its emptyDir as "
                "it was; here a new pod begins with an empty one"
            )
            yield Reason("", why, Loss.BEHAVIOUR)

    def _restarts(self, changed: tuple[Pointer, ...]) -> Iterator[Reason]:
        """Yield a reason if only restarts differ: those without a limit have one in a spec."""
        limits = {
            value_at(self.rendered, path) for path in changed if path.endswith("/restart/limit")
        }
        bounded = [limit for limit in limits if isinstance(limit, int) and limit > 0]
        if bounded and all(path.endswith("/restart/limit") for path in changed):
            why = f"restarts have a limit in a spec: retries is {bounded[0]} here"
            yield Reason("", why, Loss.BEHAVIOUR)

    def _of_one_size(self, changed: tuple[Pointer, ...]) -> Iterator[Reason]:
        """Yield a reason if an elastic range is one size, which the nodes of the spec are."""
        if self.rendered.elastic or not any(path.startswith("/elastic/") for path in changed):
            return
        nodes = self.rendered.nodes
        if self.source.workload().sizes == (nodes, nodes):
            yield Reason("", f"its range is one size, {nodes} nodes", Loss.COSMETIC)

    def _severity(self, changed: tuple[Pointer, ...]) -> Loss:
        """Return the severity of these parts of the normal form being rendered differently."""
        if changed and all(map(self._meets, changed)):
            return Loss.COSMETIC
        needed = any(NEEDED.match(in_group(path)) and not self._found(path) for path in changed)
        return Loss.CANNOT_RUN if needed or any(map(self._lacks, changed)) else Loss.BEHAVIOUR

    def _lacks(self, path: Pointer) -> bool:
        """Whether a path is the number of GPUs of a pod, which has none any more."""
        counts = in_group(path).matches(_AMOUNT) and is_accelerator(path.last)
        return counts and value_at(self.rendered, path) is None

    def _found(self, path: Pointer) -> bool:
        """Whether a path is the working directory of an image's own program: the image sets it."""
        program = Pointer(path.replace(_FOLDER, "/program/launcher"))
        return path.endswith(_FOLDER) and value_at(self.rendered, program) == "image"

    def _meets(self, path: Pointer) -> bool:
        """Whether a path is where processes meet: rank 0 is the same for them at any address."""
        return in_group(path).matches(_MEETS) and value_at(self.rendered, path) == "rank 0"

    def _is_found_by_name(self, account: Account) -> bool:
        """Whether a port has a name, by which Services find it, and is none of the rendezvous."""
        at = _PORT.fullmatch(account.pointer)
        holder = mapping(lookup(self.source.parts[account.part].body, at[1]) if at else None)
        meeting = {port.name for port in self.source.pod().ports if port.meets}
        return bool(holder.get("name")) and holder["name"] not in meeting

    def _is_of_config(self, account: Account) -> bool:
        """Whether a value is an entry of a ConfigMap, imported for its other entries."""
        kind = self.source.parts[account.part].group_kind
        return kind == CONFIGMAP and account.pointer.startswith(("/data/", "/binaryData/"))

    def _places(self, account: Account) -> bool:
        """Whether a value belongs to a variable by which launchers find their ranks."""
        entry = _ENV.fullmatch(account.pointer)
        holder = lookup(self.source.parts[account.part].body, entry[1]) if entry else None
        if isinstance(holder, Mapping):
            return places(str(holder.get("name", "")))
        above, name = account.pointer.parent.last, account.pointer.last
        written = str(account.value).partition("=")[0] if name.isdecimal() else name
        return above == "environment" and places(written)  # of a service

    def _of_the_environment(self, account: Account) -> list[str]:
        """Return why the environment refuses the field of a value, first what is about its own
        key, then where it is quoted.
        """
        whys = [
            (spec, why)
            for path in account.changed
            for spec, why in self.refused.items()
            if _in_spec(path) == spec.parts[: len(_in_spec(path))]
        ]
        written = str(account.value)

        def is_general(reason: tuple[Pointer, str]) -> tuple[bool, bool]:
            spec, why = reason
            quotes = any(quoted in written for quoted in _QUOTED.findall(why))
            return spec.last != account.pointer.last, not quotes

        return [why for _, why in sorted(whys, key=is_general)]

    def _of_the_target(self, changed: tuple[Pointer, ...]) -> Iterator[str]:
        for path in changed:
            for deviation in self.deviations:
                if deviation.covers(in_every_pod(path)):
                    yield f"{deviation.about}: {deviation.text}"

    def _of_the_result(self, changed: tuple[Pointer, ...]) -> str:
        if not changed:
            return _UNREAD
        path = changed[0]
        value = value_at(self.rendered, path)
        state = "is not there" if value is None else f"is {shown(path.last, value)}"
        if value is None and path.parent.endswith("/resources/limits") and "/" in path.last:
            state += ": name a pool that has it with --pool"
        place = in_group(path)
        inside = Pointer.of(*place.parts[2:]) if place.parts[0] == "pods" else path
        return f"in the rendered run {inside.dotted} {state}"


_POD_NUMBER = re.compile(r"^/pods/\d+/")
_QUOTED = re.compile(r'"([^"]+)"')
_FOLDER = "/rest/container/workingDir"
# What a program needs to start and to train the same: everything else is how it is run.
_AMOUNT = "/pods/*/resources/limits/*"
_MEETS = "/pods/*/processes/*/meets_at"
NEEDED = re.compile(
    r"/nodes$|/elastic/|/queue$|/pods/\d+/("
    r"processes|program/(?!options/|unbuffered)|image$|env/|secrets/|fields/|mounts/|files/|modes/"
    r"|rest/pod/(hostNetwork|hostIPC|hostPID|resourceClaims)"
    r"|rest/container/(claims|workingDir|volumeDevices)|env_from|(init|sidecars)/[^/]*/(?!security/))"
)


def _is_of_sidecar(account: Account) -> bool:
    """Whether a value is the name of a sidecar."""
    inside = ("sidecars", str(account.value))
    return any(path.parts[2:4] == inside for path in account.changed)


def _in_spec(path: Pointer) -> tuple[str, ...]:
    """Return the path of the spec's field that decides a value of the normal form."""
    role = path.parts[:2] if path.parts[0] == "roles" else ()
    return (*role, _decided_by(Pointer(_POD_NUMBER.sub("/pods/0/", in_group(path)))))


@lru_cache(maxsize=4096)  # the same of every pod
def _decided_by(path: Pointer) -> str:
    """Return the field of a spec that decides a path in a group of pods."""
    return next((field for pattern, field in _DECIDED_BY if path.matches(pattern)), "")


def _generated(at: Pointer) -> Iterator[Reason]:
    if len(at.parts) < 2 or at.parts[-2] not in ("labels", "annotations", "matchLabels"):
        return
    engine = generated.engine_of(at.last)
    if generated.is_hook(at.last):
        why = f"a hook: {engine} would delete the object and make it again, and train again"
        yield Reason("", why, Loss.BEHAVIOUR)
    elif engine:
        yield Reason("", f"{engine} writes or reads it: a rendered run has its own", Loss.COSMETIC)
    elif at.last.startswith("kubectl"):
        yield Reason("", "kubectl writes it", Loss.COSMETIC)
    elif generated.is_generated(at.last):
        yield Reason("", "the cluster writes it", Loss.COSMETIC)


def _matching(reasons: tuple[Reason, ...], pointer: Pointer) -> Iterator[Reason]:
    return (reason for reason in reasons if pointer.matches(reason.pattern))


def _is_secret(body: Mapping[str, Data], pointer: Pointer) -> bool:
    """Whether a value looks like a credential, or is part of a variable whose value does."""
    entry = _ENV.fullmatch(pointer)
    if entry:
        pointer = Pointer(entry[1]) / "value"
    text, name = lookup(body, pointer), _name(body, pointer)
    if not isinstance(text, str):
        return False
    words = lookup(body, pointer.parent)  # `--password` and its value are two of them
    among = isinstance(words, list) and redact_words(words)[int(pointer.last)] != text
    return among or redact(text) != text or named(name, text)


def _name(body: Mapping[str, Data], at: Pointer) -> str:
    """Return the name of a value: for the value in an entry of `env`, that of the variable."""
    holder = lookup(body, at.parent)
    if at.last == "value" and isinstance(holder, Mapping):
        return str(holder.get("name", at.last))
    return at.last


def _branches(left: Mapping[Pointer, Reason], everything: list[Pointer]) -> Iterator[Pointer]:
    """Yield the highest pointers below which all values are left for one reason, in order."""
    kept: list[Pointer] = []
    for pointer in left:
        if any(pointer.within(above) for above in kept):
            continue
        chosen = pointer
        above = pointer.parent
        while above.count("/") > 1:
            inside = [p for p in everything if p.within(above)]
            if any(p not in left or left[p] != left[pointer] for p in inside):
                break
            chosen, above = above, above.parent
        kept.append(chosen)
        yield chosen
