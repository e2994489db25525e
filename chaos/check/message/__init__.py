"""Checkers of messages: lost, early, late, twice, untrue answers.

In: a history. Out: one verdict each. Every violation names its message.
One file a promise. The exception is sums.py, a part of answers.py.
"""
