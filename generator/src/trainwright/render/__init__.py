"""From a resolved job to the bytes of its manifests, and from a tree to what is written."""
