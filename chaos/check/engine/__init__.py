"""Checkers of the group: leaders, terms, entries, disks, steps, recovery.

In: a history. Out: a verdict each; every fault found names its node and moment.
One file a promise.
"""
