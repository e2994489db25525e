"""Checkers of messages: lost, early, late, twice, untruly told.

In: a history. Out: a verdict each; every fault found names its message.
One file a promise; sums.py is a part of answers.py.
"""
