"""The rules about Toys."""

from collections.abc import Iterator

from trainwright.datatypes.model import Severity
from trainwright.kinds.toy import KIND
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.subject import Hit, Subject


def _y01(subject: Subject) -> Iterator[Hit]:
    if subject.spec.get("color") == "red":
        yield Hit("/spec/color", "the toy is red")


Y01 = Rule(
    id="TW801",
    name="red-toy",
    severity=Severity.ERROR,
    summary="Toys are of any color but red.",
    effect="They are not seen in the dark.",
    remedy="Paint it blue.",
    kinds=(KIND.group_kind,),
    run=_y01,
    passes="apiVersion: toys.example.com/v1\nkind: Toy\nspec: {color: blue}",
    fails="apiVersion: toys.example.com/v1\nkind: Toy\nspec: {color: red}",
)
RULES = (Y01,)
