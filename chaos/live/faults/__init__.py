"""Faults of real processes, disks, clocks and links.

In: a fault of a plan. Out: the fault goes on, then off, and the history has both moments.
The file nemesis.py reads the plan and hands each fault to the handler of its kind.
"""
