"""Frames, the handshake and the connections between nodes.

In: messages for a peer. Out: messages of peers whose hello was accepted, in order, or not at all.
It knows no Raft: events.py is the line to the group.
"""
