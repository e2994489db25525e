"""The clients' side of a node: requests of the HTTP layer become calls of groups, and their results become answers.

In: the service port (api/port), told by GroupStatus who leads. Out: GroupPort calls, or the way to another node.
Invariant: it knows groups by number and port, never a part of one.
"""
