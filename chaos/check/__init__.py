"""One checker for each promise: a function of a history alone.

In: a history. Out: a verdict.
The room engine judges what nodes do among themselves, the room message what clients get and are told.
"""
