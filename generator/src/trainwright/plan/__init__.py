"""What a merge will do, job by job: `trainwright plan`.

    base commit ─┐
                 ├─ revision ─ changes (actions, causes) ─ fits, blast radius ─ Review ─ formats
    head ────────┘

Both sides are rendered with the same tool, the base out of the object store of git.
"""
