"""What happens after a failure, one module per recovery: `none`, `restart` and `live`."""
