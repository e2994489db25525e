"""Checkers of messages: those that were lost, early, late or delivered twice, and answers that were untrue.

In: a history. Out: one verdict from each checker. Every violation names its message.
Each file has the checker of one promise. The exception is sums.py, a part of answers.py.
"""
