"""Trainwright: training job specs in, GitOps-safe Kubernetes manifests and Helm values out."""

__version__ = "0.1.0"
