"""What a repository and a machine lack for all of this to work: `trainwright doctor`.

machine, repository, workflows, clusters ── a registry of checks ──▶ diagnoses, each with a way out
"""
