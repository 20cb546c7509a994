"""What a repository and a machine lack for Trainwright to work: `trainwright doctor`.

machine, repository, workflows, clusters ── a registry of checks ──▶ diagnoses, each with a remedy
"""
