"""One checker for each promise: a function of a history alone.

In: a history. Out: a verdict, which names its promise by a short key such as `H` (chaos/history/promises.py).
The room engine judges what nodes do among themselves, the room message what clients get and are told.
"""
