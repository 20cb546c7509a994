"""Everything about a TrainingJob."""
