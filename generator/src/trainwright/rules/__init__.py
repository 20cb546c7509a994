"""What is true of any Kubernetes object, one family of rules per file."""
