"""Checkers of the group: leaders, terms, entries, disks, steps, recovery.

In: a history. Out: one verdict each. Every violation names its node and moment.
One file a promise.
"""
