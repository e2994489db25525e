"""Other systems, measured by the same clients on the same machine.

In: the programs that are installed. Out: rows (bench/row.py).
The functions that find, start and end a program are in process.py.
"""
