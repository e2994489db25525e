"""The bytes of an entry, and of each command in it.

In: commands of a leader, as columns. Out: bytes, and the same columns from the bytes, or a refusal that says why.
entry.py has the numbers of the commands. An entry applies its commands in the order of these numbers.
"""
