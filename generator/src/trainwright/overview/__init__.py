"""The state of all environments and runs of a repository, and the history that led to it."""
