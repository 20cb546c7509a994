"""Edits of live objects: the table of what becomes of each, and the rules that report it."""
