"""Clients that stop others, and clients that behave beside them: the latter are to notice nothing."""
