"""Who trains, and when training is over: what the coordinator, workers and entrypoints share.

No module here imports torch: the coordinator must be back at once when it dies.
"""
