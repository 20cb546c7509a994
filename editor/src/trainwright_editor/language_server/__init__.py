"""The language server: what the other commands find, in an editor while people type.

`server` speaks the protocol. Each feature is a module that answers from a session and a position
(`trainwright.authoring`), and knows nothing of the protocol.
"""
