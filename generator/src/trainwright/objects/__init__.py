"""Kubernetes objects of any origin, and the types of rules about them."""
