"""Reads over many hours: moved messages, counts, windows of time, the delivery log.

In: positions, topics, ids and times.
Out: states, records and counts as of the entry last applied.
Nothing here writes.
"""
