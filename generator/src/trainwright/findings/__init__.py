"""What is said about sources: diagnostics at a position, and what no report may show."""
