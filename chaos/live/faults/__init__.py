"""Faults of real processes, disks, clocks and links.

In: a fault of a plan. Out: it is on, then off, and the history says when.
nemesis.py reads the plan and hands each fault to the handler of its kind.
"""
