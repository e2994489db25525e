"""Clients of a simulated cluster, and the probe that looks into its nodes.

In: a world. Out: events of a history.
load.py schedules and draws the clients' calls. probe.py sees what only the simulator can see.
"""
