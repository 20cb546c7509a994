"""PyTorchJobs in a Kueue queue."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.objects.kueue import GROUP, TOPOLOGY, sliced
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject

_PAIR = "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: %s, Worker: %s}}"


def _grouped(*annotations: str, replicas: int = 1) -> str:
    written = ", ".join(f"kueue.x-k8s.io/podset-{annotation}" for annotation in annotations)
    return f"{{replicas: {replicas}, template: {{metadata: {{annotations: {{{written}}}}}}}}}"


_RACK, _RANKS = "required-topology: rack", "group-name: ranks"


@warning(
    id="TW610",
    summary="Master and workers that request one topology domain are one group of pod sets.",
    effect="Kueue places each pod set by itself: the ranks may talk from one rack to another.",
    remedy=f"Annotate both pod templates with {GROUP} and one value.",
    spec=Pointer("/topology"),
    source="https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/",
    passes=_PAIR % (_grouped(_RACK, _RANKS), _grouped(_RACK, _RANKS)),
    fails=_PAIR % (_grouped(_RACK), _grouped(_RACK)),
)
def pod_sets_not_grouped(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates[1:]:
        for name in TOPOLOGY[:2]:
            level = template.annotations.get(name)
            alone = GROUP not in template.annotations and not any(
                sliced(template.annotations) for template in subject.templates
            )
            if level and alone and subject.templates[0].annotations.get(name) == level:
                message = f"{subject.templates[0].role} and {template.role} may get a {level} each"
                yield Hit(f"{template.pointer}/metadata/annotations", message)


RULES = defined_in(globals())
