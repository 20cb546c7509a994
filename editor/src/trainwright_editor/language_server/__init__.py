"""The language server: what the other verbs find, in an editor and while people type.

`session` keeps a repository checked and knows nothing of the protocol; `server` speaks it. Each
feature is a module that makes an answer of a session and a position.
"""
