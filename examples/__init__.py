"""Two small programs that use Hourwheel, to read and to copy from.

In: an address of a cluster, and an SQLite database of the program's own. Out: what is due, in time.
They need `hourwheel` and the standard library alone. No other part of Hourwheel imports them.
"""
