"""Virtual time: one heap of events for the world, an event loop for each node, clocks that may be wrong.

In: what is to happen, and when. Out: the same order in every run of a seed, and the trace that proves it.
cost.py says what a node's work takes of that time.
"""
