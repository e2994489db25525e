"""Applies commands to the store. Pure: the same on every node, whenever it is applied.

In: entries in the order of the log, each once. Out: the changed store, and a code for each row. machine.py applies an
entry. registry.py has a row for each command. The files beside it, and in message/, apply the commands.
"""
