"""Verbs that change what runs by editing job files: each edits only the lines that matter."""
