"""What crosses between a group, the front and the push wire of a process: plain values, and their codec.

In and out: structs of numbers, text and bytes. A struct holds no callable, future, array or part of the core.
push_port.py is the border between a group and the push wire; that of the front is not drawn yet.
"""
