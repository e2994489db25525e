"""What crosses the line between HTTP and the node: types, protocols, and the table of errors.

In: nothing; both sides import this room. Out: one protocol for each subject, and `Port`, which is all of them.
What both sides use besides: durations, times, the budget of connections, turns of the loop (loop_turn.py).
"""
