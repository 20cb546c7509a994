"""Rules for Kubernetes objects of any kind, one family per file."""
