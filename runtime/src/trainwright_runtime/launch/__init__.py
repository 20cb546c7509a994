"""From what a launcher gives to processes of this node, their placement and their ends."""
