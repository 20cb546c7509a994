"""An edit of an object, checked by the rules of its definition that compare (`oldSelf`)."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.findings import diagnostics as dx
from trainwright.findings.credentials import redact
from trainwright.manifests import cel, webhooks
from trainwright.manifests.catalog import Catalog
from trainwright.manifests.cel import Broken, Skipped
from trainwright.manifests.crds import Crd

REMEDY = "Leave it as it was, or make another object under another name."
_ALL = "the rules that compare with the object before"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that an edit violates; not `sure` if a webhook may fill in a value that satisfies it.

    Definitions may put values into `message`: what looks like a credential is hidden in it.
    """

    pointer: str
    message: str
    sure: bool

    def finding(self, place: Location, message: str, remedy: str) -> Finding:
        """Return the refusal as a finding; its text is `message`, which includes the refusal's."""
        rejection = dx.CEL.at(place, message, remedy=remedy)
        return rejection if self.sure else webhooks.unless(rejection)


def evaluate(catalog: Catalog, before: Manifest, after: Manifest) -> Iterator[Refusal | Skipped]:
    """Yield what the CRD of an object refuses about an edit of it, and what cannot be evaluated.

    A kind whose CRD was not given yields one Skipped. An object that is not valid
    before or after is not evaluated: it was never in the cluster, or is refused for that already.
    """
    definition = catalog.find(after.api_version, after.kind)
    if definition is None or definition.own:
        yield Skipped(_ALL, f"no definition of {after.api_version} was given")
    elif definition.crd is None or not cel.compares(definition.crd):
        return
    elif before.api_version != after.api_version:
        moved = f"from {before.api_version} to {after.api_version}"
        yield Skipped(_ALL, f"it moves {moved}, and only the cluster can convert it")
    elif is_valid(catalog, before) and is_valid(catalog, after):
        yield from _asked(definition.crd, before, after)


def is_valid(catalog: Catalog, manifest: Manifest) -> bool:
    """Whether an object is valid by its schema; True if its schema is not known.

    An invalid one was never in the cluster, or is refused for that alone.
    """
    definition = catalog.find(manifest.api_version, manifest.kind)
    return definition is None or not definition.violations(manifest.body)


def _asked(crd: Crd, before: Manifest, after: Manifest) -> Iterator[Refusal | Skipped]:
    outcomes = cel.transition(crd, before.body, after.body)
    if not outcomes:
        return
    # A rule is certainly broken if it still is after each side got what a webhook may fill in.
    old = webhooks.completed(after.group_kind, before.body, after.body)
    new = webhooks.completed(after.group_kind, after.body, before.body)
    certain = {(o.pointer, o.rule) for o in cel.transition(crd, old, new) if isinstance(o, Broken)}
    for outcome in outcomes:
        if isinstance(outcome, Skipped):
            yield outcome
        else:
            pointer, rule = outcome.pointer, outcome.rule
            awaited = webhooks.awaited(after.group_kind, after.body, pointer, rule)
            sure = (pointer, rule) in certain and not awaited
            yield Refusal(pointer, redact(outcome.message), sure)
