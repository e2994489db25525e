"""The Raft group: a log that all nodes agree on, and the state machine that applies it to the store.

In: entries that the leader proposes. Out: the same entries, committed and applied in one order on every node. A node
uses the group through group.py. driver.py runs the group on the event loop, and transfer.py gives leadership away. From
low to high the rooms are `command`, `journal`, `wire`, `raft` and `snapshot`; `apply` is beside them.
"""
