"""What the run of a spec has otherwise although no value of the input asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.equivalence import Difference
from trainwright.importing import reasons
from trainwright.kinds.reading import Loss
from trainwright.kinds.target import in_group


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """One difference, and what it means for the run."""

    difference: Difference
    severity: Loss


# What every rendered run has, whatever it was before.
_ALWAYS = (
    *(
        Pointer.of(*holder, "labels", f"{domain}/*")
        for holder in ((), ("pods", "*"), ("beside", "*/run"))
        for domain in ("app.kubernetes.io", "trainwright.io")
    ),
    Pointer.of("beside", "*/run", "annotations", "argocd.argoproj.io/*"),
    Pointer.of("beside", "ConfigMap/run", "immutable"),
    Pointer.of("beside", "ConfigMap/run", "readOnly"),
    Pointer.of("annotations", "argocd.argoproj.io/*"),
    Pointer.of("annotations", "kustomize.toolkit.fluxcd.io/*"),
)

# What is added without a change to what is trained, scheduled, restarted or observed: the ranks of
# processes that were alone, and rights that a training does not use.
_HOLDERS = ("", "init/*/", "sidecars/*/")
_HARMLESS_ADDITIONS = (
    "/pods/*/processes/**",
    "/pods/*/program/unbuffered",
    "/pods/*/env/TRAINWRIGHT_METRICS_PORT",
    *(
        f"/pods/*/{holder}security/{right}"
        for holder in _HOLDERS
        for right in ("seccompProfile/type", "capabilities/drop/*", "fsGroupChangePolicy")
    ),
)
_RIGHTS = tuple(f"/pods/*/{holder}security/allowPrivilegeEscalation" for holder in _HOLDERS)
_GRACE = "/pods/*/grace_period"


def reported(added: Iterable[Difference]) -> Iterator[Differing]:
    """The differences but for what every rendered run has."""
    for difference in added:
        if not any(map(in_group(difference.path).matches, _ALWAYS)):
            yield Differing(difference=difference, severity=severity(difference))


def severity(difference: Difference) -> Loss:
    """What it means for the run: what it needs can be added, and not be another or missing."""
    if _is_harmless(difference):
        return Loss.COSMETIC
    needed = reasons.NEEDED.match(in_group(difference.path).replace("/pods/*/", "/pods/0/", 1))
    return Loss.CANNOT_RUN if needed and difference.left is not None else Loss.BEHAVIOUR


def _is_harmless(difference: Difference) -> bool:
    path, before, after = in_group(difference.path), difference.left, difference.right
    if path.matches(_GRACE):  # more time to save before it ends, of a pod that both runs have
        return isinstance(before, int) and isinstance(after, int) and after > before
    if any(map(path.matches, _RIGHTS)):
        return not after
    return before is None and any(map(path.matches, _HARMLESS_ADDITIONS))
