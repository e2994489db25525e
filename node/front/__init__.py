"""What the clients of a node touch: the HTTP layer's requests become calls of groups, and what groups give, answers.

In: the service port (api/port), told by GroupStatus who leads. Out: GroupPort calls, or the way to another node.
Invariant: it knows groups by number and port, never a part of one.
"""
