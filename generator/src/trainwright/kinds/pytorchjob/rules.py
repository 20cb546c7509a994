"""The rules about PyTorchJobs; those about a Kueue queue are here."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.pytorchjob import rank_rules, spec_rules
from trainwright.objects.kueue import GROUP, TOPOLOGY, sliced
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject


@warning("TW610", about=TOPOLOGY[:2], spec=Pointer("/topology"))
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


RULES = (*spec_rules.RULES, *rank_rules.RULES, *defined_in(globals()))
