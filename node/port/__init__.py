"""What crosses between a group, the front and the push wire of a process: plain values, and their codec.

In and out: structs of numbers, text and bytes. No callable, future, array or part of the core crosses.
push_port.py is the border between a group and the push wire.
"""
