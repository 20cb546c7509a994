"""Folders, commits and what is remembered of them: files as they are read and written."""
