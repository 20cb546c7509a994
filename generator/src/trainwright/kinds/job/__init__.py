"""Everything about a Job."""
