"""Kubernetes objects of any origin: their names, pod templates, labels and annotations."""
