"""The Raft group: a log that all nodes agree on, and the machine that applies it to the store.

In: entries that the leader proposes. Out: the same entries, committed and applied in one order on every node. A node
sees the group by group.py. driver.py turns it on the loop, and transfer.py gives leadership away. The rooms go from
`command` and `journal` at the bottom over `wire` and `raft` to `snapshot`; `apply` stands apart.
"""
