"""The plain values that cross between group, front and push wire, and between nodes; and their codec.

In and out: structs of numbers, text and bytes. A struct holds no callable, future, array or part of a group. The
borders are push_port.py (group and push wire), group_port.py (front and group) and peer_port.py (the groups of two
nodes). The calls of a group by name, as bytes, are in group_frames.py. A refusal is a `Problem` on both sides, and a
`Refusal` on its way between them.
"""
