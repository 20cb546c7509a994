"""Everything about a compose file."""
