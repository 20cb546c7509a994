"""The rules about TrainJobs and their runtimes."""

from trainwright.kinds.trainjob import queue_rules, runtime_rules, spec_rules

RULES = (*spec_rules.RULES, *runtime_rules.RULES, *queue_rules.RULES)
