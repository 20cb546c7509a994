"""Servers for editors and assistants: a language server and an MCP server.

Both answer with what the distribution trainwright finds, whose command line has `trainwright
editor` once this one is installed.
"""

__version__ = "0.1.0"
