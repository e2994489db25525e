"""A term as leader: the loop that steps through time, and the services that it drives.

In: the group says that this node leads. Out: due units in the windows, and every 50 ms the dispatch state in an entry.
A new leader sets the wheel by the replicated tick, and hands over what is overdue.
"""
