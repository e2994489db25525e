"""One world: nodes as processes on machines, clients, receivers of webhooks.

In: how many nodes, a seed. Out: everything a fault or a client can reach.
environment.py has all that a node sees of the world, process.py starts and ends a node.
"""
