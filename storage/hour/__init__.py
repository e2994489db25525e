"""An hour: the log of bodies, the index of units and the settle records, chained per second.

In: batches of units and settle records, staged in memory.
Out: units of a second, records by position.
Bodies are written by body_write.py: of a near hour at once, of a far one with its stage (stage_write.py). Long before,
a body is durable with its Raft entry.
"""
