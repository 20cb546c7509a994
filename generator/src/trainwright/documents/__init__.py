"""YAML: read with the position of each value, and edited in place."""
