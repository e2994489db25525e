"""Consensus: the library's core, with repairs of what it gets wrong (docs/adr/0001-raft-on-pysyncobj.md).

In: messages, ticks and proposals. Out: messages, records for the journal, and committed entries. The parts share
context.py; leader.py, follower.py and votes.py are the roles.
"""
