"""The cluster compared with git: what became of rendered jobs, their logs, and what an apply would
change.

Only `client` uses the kubernetes library, and imports it only when a cluster is accessed, as that
takes half a second; everything else here is plain data.
"""
