"""A repository that starts, and one that is examined: `init` and `doctor`."""
