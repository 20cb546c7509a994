"""The targets, in the order they are listed: adding one is its module and its line here."""

from trainwright.targets import pytorchjob, trainingjob
from trainwright.targets.target import Target

TARGETS: dict[str, Target] = {t.name: t for t in (pytorchjob.TARGET, trainingjob.TARGET)}
