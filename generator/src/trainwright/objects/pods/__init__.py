"""A pod as it is written and as it runs, its ranks, and the commands that start it."""
