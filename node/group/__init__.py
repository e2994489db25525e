"""A Raft group and all that it needs to live in a process of its own.

In: GroupPort calls, Raft, time. Out: answers, GroupStatus, work for the push wire, calls of PeerPort.
Invariant: a failure that is final ends the group, once. Nothing is served after it.
"""
