"""Puts faults on a simulated world.

In: a plan. Out: how often each kind fired.
nemesis.py reads the plan. Strangers, upgrades, drains and clocks have their own files.
"""
