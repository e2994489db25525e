"""The log on disk: entries, truncations, and what this node promised in votes, in one sequence.

In: records to append, and when they must be durable. Out: entries by index, and after a crash what was promised.
A broken middle is damage and stops the node; a torn tail never was.
"""
