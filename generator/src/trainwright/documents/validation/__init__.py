"""Validation by JSON Schema and by Kubernetes' further checks: violations and their messages."""
