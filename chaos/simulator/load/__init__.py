"""Clients of a simulated cluster, and the probe that looks into its nodes.

In: a world. Out: events of a history.
load.py draws the messages and schedules them. probe.py records what only the simulator can see.
"""
