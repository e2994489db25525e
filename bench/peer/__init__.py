"""Other systems, measured by the same clients on the same machine.

In: the programs that are installed. Out: rows (bench/row.py).
process.py finds, starts and ends one.
"""
