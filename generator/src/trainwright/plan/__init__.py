"""What a merge will do, job by job: `trainwright plan`.

    base commit ─┐
                 ├─ revision ─ changes (actions, causes) ─ fits, shared files ─ Plan ─ formats
    head ────────┘

Both sides are rendered by the same version of the tool; the base is read from git's objects.
"""
