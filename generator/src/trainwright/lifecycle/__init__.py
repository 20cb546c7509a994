"""Verbs that change what runs by changing what is written: each edits the lines that matter."""
