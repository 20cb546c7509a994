"""The language server: what the other verbs find, in an editor and while people type.

`server` speaks the protocol. Each feature is a module that makes an answer of a session and a
position (`trainwright.authoring`), and knows nothing of it.
"""
