"""Requests become entries of the Raft log.

In: commands of clients and of the leader itself, bounded by number and bytes. Out: entries, and a result for each row
of a command. The proposer puts entries together one at a time, each with all that came while the one before was written
(proposer.py).
"""
