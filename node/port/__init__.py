"""The plain values that cross between group, front and push wire, and between nodes; and their codec.

In and out: structs of numbers, text and bytes. A struct holds no callable, future, array or part of the core. Borders:
push_port.py (group and push wire), group_port.py (front and group), peer_port.py (groups of two nodes). The calls of a
group by name, as bytes, are in group_frames.py. Refusals are Problems on both sides, a Refusal between them.
"""
