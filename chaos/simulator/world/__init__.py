"""One world: nodes as processes on machines, clients, receivers of webhooks.

In: how many nodes, a seed. Out: everything a fault or a client can reach.
environment.py is a node's outside, process.py starts and ends a node.
"""
