"""The clients' side of a node: requests of the HTTP layer become calls of groups, and their results become answers.

In: the service port (api/port), and GroupStatus, which says where each group is led. Out: calls of GroupPort, or
requests to the node that leads. Invariant: a front knows groups by number and port, and never a part of a group.
"""
