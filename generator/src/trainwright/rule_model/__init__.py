"""What a rule is: what it is asked about, its samples, and the rows of the table of edits."""
