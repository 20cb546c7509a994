"""The rules about PyTorchJobs."""

from trainwright.kinds.pytorchjob import queue_rules, rank_rules, spec_rules

RULES = (*spec_rules.RULES, *rank_rules.RULES, *queue_rules.RULES)
