"""Calls between the nodes of a group: connections, frames, credit, and the way of a request to the leader.

In: calls by name, as bytes (node/port/group_frames.py). Out: another node's answer, or why it is not known.
connection.py is one connection.
"""
