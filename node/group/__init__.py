"""A Raft group on one node, with all its parts. It could live in a process of its own.

In: calls of GroupPort, Raft messages, time. Out: answers, GroupStatus, work for the push wire, calls of PeerPort.
Invariant: a failure that cannot be repaired ends the group, once. No call is answered after it.
"""
