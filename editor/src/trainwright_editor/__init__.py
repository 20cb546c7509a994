"""What serves editors and assistants: a language server, and a server of the protocol MCP.

Both give the answers of the distribution trainwright, whose command line has `trainwright editor`
once this is installed.
"""

__version__ = "0.1.0"
