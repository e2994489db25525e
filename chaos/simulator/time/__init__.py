"""Virtual time: one heap of events for the world, an event loop for each node, clocks that may be wrong.

In: calls and their moments. Out: the calls, made in the same order in every run of a seed, and a trace that proves it.

The file cost.py says how much of that time a node's work takes.
"""
