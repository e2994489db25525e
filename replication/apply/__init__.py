"""Applies commands to the store. Pure: the result is the same on every node and at any time.

In: the committed entries, in the order of the log, each one time. Out: the changed store, and a result for each row of
each command. machine.py applies an entry. registry.py has a row for each command. The files beside it, and in message/,
apply the commands.
"""
