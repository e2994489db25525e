"""What a command does to the store. Pure: the same on every node, whenever it is applied.

In: entries in the order of the log, each once. Out: the store behind them, and a code for each row.
machine.py applies an entry; the files beside it hold one kind of command each.
"""
