"""What people write: files, layers, schemas, and the values that they resolve to."""
