"""The bytes of an entry and of each command in it.

In: what a leader has decided, in columns. Out: bytes, and the same columns from them, or a refusal by name.
registry.py lists the kinds in the order in which an entry holds them.
"""
