"""Clients of a simulated cluster, and the eyes that look into its nodes.

In: a world. Out: events of a history.
load.py schedules and draws what clients do; probe.py sees what only the simulator can see.
"""
