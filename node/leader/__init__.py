"""A term as leader: the loop that steps through time, and the services that it drives.

In: the group says that this node leads. Out: due units in the windows, the wheel's place in the log every 50 ms.
A new leader aligns the wheel with the log, and hands over what is overdue.
"""
