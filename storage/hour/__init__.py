"""One hour: the log of bodies, the index of units and the settle records, chained per second.

In: batches of units and settle records, staged in memory. Out: units of a second, records by position.
stage_write.py is where a body is written; it is durable with its Raft entry, long before.
"""
