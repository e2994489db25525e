"""Whole nodes in one process on virtual time: one seed is one history, whatever the machine does meanwhile."""
