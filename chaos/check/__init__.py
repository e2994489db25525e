"""One checker for each promise: a function of a history and nothing else.

In: a history. Out: a verdict.
engine has what nodes do among themselves, message has what clients are given and told.
"""
