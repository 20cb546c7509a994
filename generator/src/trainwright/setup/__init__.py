"""Setting up a repository, and examining one: `init` and `doctor`."""
