"""Everything about a TrainJob."""
