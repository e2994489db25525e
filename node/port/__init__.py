"""What crosses between group, front and push wire of a process, and between nodes: plain values, and their codec.

In and out: structs of numbers, text and bytes. A struct holds no callable, future, array or part of the core.

- push_port.py: the border between a group and the push wire.
- group_port.py: the border between a front and a group.
- peer_port.py: the border between groups of two nodes.
- group_frames.py: the calls of a group by name, as bytes.

Refusals are Problems on both sides, a Refusal between them.
"""
