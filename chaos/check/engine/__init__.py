"""Checkers of what nodes do among themselves: leaders, terms, entries, disks, steps of the event loop, recovery.

In: a history. Out: one verdict from each checker. Every violation names its node and moment.
Each file has the checker of one promise.
"""
