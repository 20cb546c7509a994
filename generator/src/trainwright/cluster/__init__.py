"""The cluster beside git: what became of rendered jobs, their logs, and what an apply would change.

Only `client` knows the kubernetes library, and imports it when a cluster is asked for: that costs
half a second, and everything else here is plain data.
"""
