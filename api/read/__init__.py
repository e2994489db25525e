"""From the bytes of a request to the types of the port.

In: JSON, query strings and lines of a batch. Out: structs of the port, or every fault at once, each with its place.
Reading that takes more than a millisecond runs in pieces (port/loop_turn.py).
"""
