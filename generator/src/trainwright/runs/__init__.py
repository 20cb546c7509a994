"""A run is a snapshot: what it began with is recorded beside its manifests, and stays.

    job file, layers, environment ─┐
                                   ├─ meaning: does the job's own file request another run?
    record of the run ─────────────┘      ├─ yes: rendered anew, under a new name
                                          └─ no: the recorded bytes; `state`, `maxDuration` in place

Only a line of the job's own file starts a run. What changed around it waits for a `rerun`.
"""
