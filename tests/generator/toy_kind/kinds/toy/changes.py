"""Edits of a live Toy."""

from trainwright.kinds.toy import KIND
from trainwright.objects.edit import Basis, edits
from trainwright.objects.transition import Transition, Verdict

EDITS = edits(
    (KIND.group_kind,),
    ("spec.size",),
    Verdict.REJECTED,
    "toys do not grow",
    Basis.INFERRED,
    "https://toys.example.com",
)
DEFAULTS = {KIND.group_kind: ()}
TRANSITIONS: tuple[Transition, ...] = ()
