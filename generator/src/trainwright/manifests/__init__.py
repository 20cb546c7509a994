"""Anybody's Kubernetes manifests, held against schemas, CEL and rules at their own lines."""
