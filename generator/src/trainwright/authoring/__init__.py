"""Specs while they are written: a repository that stays checked, places in its texts, and the edits
that fix findings.

`check --fix` and `check --watch` are built on this, and so is the language server in the
trainwright-editor distribution. Nothing is written to disk.
"""
