"""Long tasks: their progress, and the processes that share them."""
