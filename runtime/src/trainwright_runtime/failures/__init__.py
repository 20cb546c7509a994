"""What failed, where and why: causes, exit codes, and the report of the first failure."""
