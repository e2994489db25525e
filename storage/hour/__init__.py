"""One hour: the log of bodies, the index of units and the settle records, chained per second.

In: batches of units and settle records, staged in memory. Out: units of a second, records by position.
hour.py is where a body of a near hour is written, stage_write.py one of a far hour; it is durable with its Raft
entry, long before.
"""
