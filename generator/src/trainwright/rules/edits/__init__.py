"""Edits of live objects: the table of their outcomes, and the rules that report it."""
