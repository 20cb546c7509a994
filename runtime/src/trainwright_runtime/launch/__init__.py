"""From a launcher's environment to the processes of this node: placement, start and end."""
