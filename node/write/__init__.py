"""Requests become one entry of the log.

In: commands of clients and of the leader itself, bounded by number and bytes. Out: an entry, and a result for each row.
proposer.py puts entries together, one at a time, and as full as waiting makes them.
"""
