"""One hour: the log of bodies, the index of units and the settle records, chained per second.

In: batches of units and settle records, staged in memory. Out: units of a second, records by position.
body_write.py is where a body is written: of a near hour at once, of a far one when its stage is (stage_write.py). It is
durable with its Raft entry, long before.
"""
