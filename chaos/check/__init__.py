"""One checker per promise: a function of a history and nothing else."""
