"""Training jobs to run, to copy from and to measure with: each a module with a main function."""
