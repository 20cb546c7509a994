"""A pod, its ranks, and the commands that start it."""
