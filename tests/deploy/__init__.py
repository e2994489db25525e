"""What stands in deploy/ agrees with the code it starts, watches and stops."""
