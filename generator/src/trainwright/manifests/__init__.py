"""Kubernetes manifests of any origin, checked against schemas, CEL and rules at their own lines."""
