"""The code inside the training image: one entrypoint for every launcher, and elastic training."""

__version__ = "0.1.0"

# What a manifest and an image must agree on: the options of the command line and the variables
# below. Raised when an old manifest would be misunderstood.
CONTRACT = 1
