"""The rules about Toys."""

from collections.abc import Iterator

from trainwright.kinds.toy import KIND
from trainwright.rule_model.rule import error
from trainwright.rule_model.subject import Hit, Subject


@error("TW801", kinds=(KIND.group_kind,))
def red_toy(subject: Subject) -> Iterator[Hit]:
    if subject.spec.get("color") == "red":
        yield Hit("/spec/color", "the toy is red")


RULES = (red_toy,)
