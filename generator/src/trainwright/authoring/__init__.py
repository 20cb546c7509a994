"""Specs while they are written: a repository that stays checked, places in its texts, and the edits
that take findings away.

`check --fix` and `check --watch` work on it, and so does the language server of the distribution
trainwright-editor. Nothing is written to disk.
"""
