"""Puts a plan's faults on a simulated world.

In: a plan. Out: how often each kind of fault fired.
nemesis.py reads the plan. Strangers, upgrades, drains, catches and clocks have their own files.
"""
