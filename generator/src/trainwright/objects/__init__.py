"""Kubernetes objects as anybody may have written them, and the types of rules about them."""
