"""The log on disk: entries, truncations, and what this node promised in votes, in one sequence.

In: records to append, and requests to make them durable. Out: entries by index, and after a crash this node's promises.
A broken record in the middle is damage and stops the node. A torn end is cut off, because it was never durable.
"""
