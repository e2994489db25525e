"""All hours of a node: a checkpoint makes one moment of them durable, and a pin keeps it readable.

In: units and settle records that wait in memory, and the hours that were written to.
Out: a checkpoint that a start opens, a snapshot that a follower fetches.
An hour without messages to keep is unlinked. Its directory is removed after a checkpoint that no longer names it.
"""
