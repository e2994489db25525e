"""Clients that stop others, and clients that behave beside them: the latter are to notice nothing.

In: three real nodes. Out: a verdict for each attack: term, `/livez`, lateness and memory beside the bounds.
An attack is a file's function; the clients that behave, and what they measure, are the same for all.
"""
