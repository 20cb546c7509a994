"""The Python API for programs that speak the Model Context Protocol; read-only."""
