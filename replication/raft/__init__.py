"""Consensus: the library's core and what it gets wrong, repaired part by part (docs/adr/0001-raft-on-pysyncobj.md).

In: messages, ticks and proposals. Out: messages, records for the journal, and committed entries. The parts share
context.py; leader.py, follower.py and votes.py are the roles.
"""
