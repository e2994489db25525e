"""Frames, the handshake and the connections between nodes.

In: messages for a peer. Out: messages of peers whose hello was accepted. The messages of one peer arrive in order, and
some may be lost.

This room knows no Raft. events.py is its border to the group.
"""
