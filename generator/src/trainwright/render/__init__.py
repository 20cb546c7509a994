"""Renders a resolved job to the bytes of its manifests, and a tree of specs to files to write."""
