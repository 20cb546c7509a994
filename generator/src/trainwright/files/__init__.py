"""Reading and writing files: folders, commits and what is remembered of them."""
