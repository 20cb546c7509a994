"""Pieces of work that take long: how far they are, and the processes that share them."""
