"""Findings about source files: diagnostics at a position, and what no report may show."""
