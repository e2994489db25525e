"""One checker for each promise: a function of a history alone.

In: a history. Out: a verdict.
engine judges what nodes do among themselves, message what clients get and are told.
"""
