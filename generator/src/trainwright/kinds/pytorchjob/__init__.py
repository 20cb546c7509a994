"""Everything about a PyTorchJob."""
