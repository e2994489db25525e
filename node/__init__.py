"""A node: the parts between the HTTP port and the replicated store.

In: calls of the port (`api/port`), and commands that the group commits. Out: entries to replicate, hand-overs, answers.
node.py puts a node together. A message goes through `write`, then `ready`, `handover`, and `pull` or `push`.
"""
