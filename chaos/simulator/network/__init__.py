"""The simulated network: hosts, connections that behave as TCP's do, the real Raft transport over them.

In: bytes of nodes and clients. Out: the same bytes later, or never.
network.py carries them, and has the faults that make them late or lost.
"""
