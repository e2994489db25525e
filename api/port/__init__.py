"""The border between HTTP and the node: types, protocols, and the table of errors.

In: nothing; both sides import this room. Out: one protocol for each subject, and `Port`, which is all of them.
Both sides also use: durations, times, the budget of connections, turns of the loop (loop_turn.py).
"""
