"""The log on disk: entries, truncations, and what this node promised in votes, in one sequence.

In: records to append, and when they must be durable. Out: entries by index, and after a crash this node's promises. A
broken middle is damage and stops the node. A torn tail is cut, for it was never durable.
"""
