"""What an environment allows after a merge that it did not allow before, and the reverse; and with
which other capacities and prices the plan counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment, GitOps, Pool, Verify, Waiver
from trainwright.datatypes.finding import Severity
from trainwright.datatypes.pointer import Pointer


class Setting(NamedTuple):
    """A setting of an environment before and after a merge, if it differs; None is unset."""

    path: Pointer
    before: Data
    after: Data
    loosens: bool = False  # whether jobs may do more than before


NAMESPACE = Pointer("/namespace")
POOLS = Pointer("/pools")


def amounts(before: Environment, after: Environment) -> Iterator[Setting]:
    """Yield the capacities, prices and the currency by which sums are counted, and the pools that
    come or go, each with both.
    """
    for name in sorted(before.pools.keys() | after.pools.keys()):
        pool, sides = POOLS / name, (before.pools.get(name), after.pools.get(name))
        old, new = (_counts(it) if it else None for it in sides)
        if old is None or new is None:
            yield Setting(pool, old, new)
        else:
            yield from (Setting(pool / key, old.get(key), new.get(key)) for key in _COUNTS)
    yield Setting(Pointer("/currency"), before.currency, after.currency)


_COUNTS = ("capacity", "pricePerGpuHour")


def _counts(pool: Pool) -> dict[str, Data]:
    values = zip(_COUNTS, (pool.capacity, pool.price_per_gpu_hour), strict=True)
    return {key: value for key, value in values if value is not None}


def wiring(before: Environment, after: Environment) -> Iterator[Setting]:
    """Yield the settings by which runs and objects are applied, and where."""
    yield Setting(NAMESPACE, before.namespace, after.namespace)
    old, new = before.gitops, after.gitops
    yield Setting(Pointer("/gitops/engine"), old.engine, new.engine)
    if new.engine != "none":
        yield Setting(Pointer("/gitops/prune"), old.prune, new.prune)
        sides = old.destination, new.destination
        yield from _named(Pointer("/gitops/destination"), *sides, ("name", "server"))


def _named(
    path: Pointer, before: object, after: object, names: Iterable[str], *, loosens: bool = False
) -> Iterator[Setting]:
    """Yield the named attributes of both sides as settings below a path; empty ones are unset."""
    for name in names:
        old, new = (getattr(side, name) or None for side in (before, after))
        yield Setting(path / name, old, new, loosens)


def limits(before: Environment, after: Environment) -> Iterator[Setting]:
    """Yield the settings that limit what jobs may do, as they are written."""
    old, new = before.pod_security, after.pod_security
    loosens = _STRICTEST_FIRST.index(new) > _STRICTEST_FIRST.index(old)
    yield Setting(Pointer("/podSecurity"), old, new, loosens)
    yield from _images(before, after)
    yield from _allowed(before, after)
    yield from _severities(before, after)
    yield from _waivers(before.waivers, after.waivers)
    yield from _signatures(before.gitops, after.gitops)
    yield from _sources(before.gitops, after.gitops)
    yield from _counted(before, after)


_STRICTEST_FIRST = ("restricted", "baseline", "privileged")  # Pod Security Standards


def _images(before: Environment, after: Environment) -> Iterator[Setting]:
    digests = before.require_digest, after.require_digest
    yield Setting(Pointer("/images/requireDigest"), *digests, before.require_digest)
    old, new = before.registries, after.registries
    if set(old) != set(new):
        loosens = bool(old) and (not new or not all(_within(one, old) for one in new))
        yield Setting(Pointer("/images/registries"), [*old] or None, [*new] or None, loosens)


def _within(prefix: str, allowed: Sequence[str]) -> bool:
    return any(prefix.startswith(one) for one in allowed)


def _allowed(before: Environment, after: Environment) -> Iterator[Setting]:
    old, new = before.allow, after.allow
    if set(old) != set(new):
        yield Setting(Pointer("/allow"), [*old] or None, [*new] or None, not set(new) <= set(old))


def _severities(before: Environment, after: Environment) -> Iterator[Setting]:
    rules = {*before.severities, *after.severities}
    for rule in sorted(rules):
        old, new = _severity(before, rule), _severity(after, rule)
        loosens = old != new and _weight(new, rule) < _weight(old, rule)
        yield Setting(Pointer.of("severities", rule), old, new, loosens)


def _severity(environment: Environment, rule: str) -> str | None:
    override = environment.severities.get(rule)
    if override is None:
        return None
    return "required" if override.required else override.severity.value


def _weight(severity: str | None, rule: str) -> int:
    from trainwright.reports.report import every_rule  # every rule there is costs 80 ms to import

    known = every_rule().get(rule)
    default = known.severity if known else Severity.WARNING
    return _LIGHTEST_FIRST.index(severity or default.value)


_LIGHTEST_FIRST = (Severity.OFF, Severity.NOTE, Severity.WARNING, Severity.ERROR, "required")


def _waivers(before: Iterable[Waiver], after: Sequence[Waiver]) -> Iterator[Setting]:
    """Yield waivers that are new, gone or last until another day, whatever their reason."""
    was = {(waiver.rule, waiver.job): waiver.until for waiver in before}
    now = {(waiver.rule, waiver.job): waiver.until for waiver in after}
    for place, waiver in enumerate(after):
        key = (waiver.rule, waiver.job)
        if was.get(key) != waiver.until:
            old = _waiver(*key, was[key]) if key in was else None
            pointer = Pointer.of("waivers", place)
            yield Setting(
                pointer, old, _waiver(*key, waiver.until), waiver.until > was.get(key, "")
            )
    for key in sorted(was.keys() - now.keys()):
        yield Setting(Pointer("/waivers"), _waiver(*key, was[key]), None, False)


def _waiver(rule: str, job: str, until: str) -> str:
    return f"{rule} for {'all jobs' if job == '*' else job} until {until}"


def _signatures(before: GitOps, after: GitOps) -> Iterator[Setting]:
    """Yield the sources of which the GitOps engine requires other signatures, or none any more."""
    sources = (
        ("repository", before.repository.verify, after.repository.verify),
        ("chart", before.chart.verify, after.chart.verify),
    )
    for source, was, now in sources:
        old, new = _required(was), _required(now)
        if old != new:
            loosens = was is not None and (now is None or not _as_strict(was, now))
            yield Setting(Pointer.of("gitops", source, "verify"), old, new, loosens)


def _sources(before: GitOps, after: GitOps) -> Iterator[Setting]:
    """Yield from where the GitOps engine takes what it applies: any other source has others who can
    write there, and so start what they want. The first repository of all is no other one.
    """
    if after.engine != "none" and before.repository.url:
        path, sides = Pointer("/gitops/repository"), (before.repository, after.repository)
        yield from _named(path, *sides, ("url", "revision", "path"), loosens=True)
    if after.engine != "none" and after.mode == "chart":
        path, names = Pointer("/gitops/chart"), ("oci", "version", "url", "revision", "path")
        yield from _named(path, before.chart, after.chart, names, loosens=True)


def _required(verify: Verify | None) -> Data:
    """Return which signatures are required, without what is the default; None for none."""
    if verify is None:
        return None
    identities = [{"issuer": it.issuer, "subject": it.subject} for it in verify.identities]
    settings: dict[str, Data] = {
        "keys": sorted(verify.keys),
        "mode": verify.mode.removeprefix("head"),
        "secret": verify.secret,
        "provider": verify.provider.removeprefix("cosign"),
        "identities": sorted(identities, key=lambda identity: sorted(identity.items())),
    }
    return {key: value for key, value in settings.items() if value}


def _as_strict(before: Verify, after: Verify) -> bool:
    """Whether all who may sign now could sign before, and as much has to be signed."""
    return (
        any((after.keys, after.secret, after.identities))
        and {*after.keys, *after.identities} <= {*before.keys, *before.identities}
        and after.secret == before.secret
        and (after.provider or "cosign") == (before.provider or "cosign")
        and (after.mode == "strict" or before.mode != "strict")
    )


def _counted(before: Environment, after: Environment) -> Iterator[Setting]:
    """Yield the amounts that a plan counts against: who raises one is asked for nothing else."""
    counted: list[tuple[Pointer, float | None, float | None]] = [
        (Pointer("/budget/gpuHours"), before.budget.gpu_hours, after.budget.gpu_hours),
        (Pointer("/budget/cost"), before.budget.cost, after.budget.cost),
    ]
    counted += [
        (Pointer.of("queues", queue, "quota"), before.queues[queue], after.queues[queue])
        for queue in sorted(before.queues.keys() & after.queues.keys())
    ]
    for pointer, old, new in counted:
        yield Setting(pointer, old, new, old is not None and (new is None or new > old))
