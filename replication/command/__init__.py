"""The bytes of an entry and of each command in it.

In: what a leader has decided, in columns. Out: bytes, and the same columns from them, or a refusal by name. The numbers
of the commands are in entry.py, in the order in which an entry applies them.
"""
