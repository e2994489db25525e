"""Members, leadership given away on purpose, draining, clocks, status.

In: orders of operators, echoes of the other nodes. Out: changes of members, moves of leadership, one page of status.
clock_guard.py keeps a node whose clock is off from leading.
"""
