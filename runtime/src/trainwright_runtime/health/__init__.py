"""Whether a node is fit to train: checks before training, and who is slow."""
