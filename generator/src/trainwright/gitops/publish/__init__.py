"""Rendered files of a commit as commits of their own: on this branch, another, or elsewhere."""
