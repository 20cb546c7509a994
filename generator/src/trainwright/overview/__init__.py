"""All environments and runs of a repository as they stand, and how they came to that."""
