"""Everything about a JobSet."""
