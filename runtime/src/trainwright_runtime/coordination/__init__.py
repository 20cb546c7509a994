"""Shared by coordinator, workers and entrypoints: deciding who trains and when training is over.

No module here imports torch, so that a coordinator that dies is back at once.
"""
