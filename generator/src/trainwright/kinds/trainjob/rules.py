"""The rules about TrainJobs and their runtimes; those about a Kueue queue are here."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import dig, sequence
from trainwright.datatypes.groupkind import APPLICATION
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.trainjob import runtime_rules, spec_rules
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.sync_options import sync_options
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject


@warning("TW605", spec=Pointer("/annotations"))
def queued_patches_need_server_side_apply(subject: Subject) -> Iterator[Hit]:
    """Yield a TrainJob in a queue that Argo CD would apply on the client's side.

    Flux always uses server-side apply. Of Applications only those among the objects are known.
    """
    if QUEUE_LABEL not in subject.labels or not sequence(subject.spec.get("runtimePatches")):
        return
    applied = "ServerSideApply=true"
    whole = any(
        applied in sequence(dig(app.spec, "syncPolicy", "syncOptions"))
        for app in subject.around.by_kind.get(APPLICATION, ())
    )
    argocd = subject.environment.gitops.engine == "argocd"
    if argocd and not whole and applied not in sync_options(subject.annotations):
        message = "Kueue adds an entry to runtimePatches, and a client-side apply drops it"
        yield Hit("/spec/runtimePatches", message)


RULES = (*spec_rules.RULES, *runtime_rules.RULES, *defined_in(globals()))
