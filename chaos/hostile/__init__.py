"""Clients that attack a cluster, and bystanders beside them, which should notice nothing.

In: three real nodes. Out: a verdict for each attack: term, `/livez`, lateness and memory beside the bounds.
An attack is a function. The clients that behave, and their measurements, are the same for all.
"""
