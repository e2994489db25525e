"""Members, leadership given away on purpose, draining, clocks, status.

In: requests of operators, echoes of the other nodes. Out: changes of members, moves of leadership, one page of status.

clock_guard.py reports a clock that is off.
"""
