"""The `hourwheel` command."""
