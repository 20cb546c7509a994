"""What another version of the tool or the chart would change in a repository, before an upgrade.

    versions: each in a process of its own ─► staging: what it renders and finds in a copy
                                                   │
    the runs as they are on disk ──────────────────┴─► comparison ─► text, json, markdown

Only commands and formats that every version has are used (`--version`, `render`, `check -o json`),
so that any two versions can be compared. The working tree is read, never written.
"""
