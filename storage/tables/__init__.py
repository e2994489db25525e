"""The replicated tables: a file for each, and their registry.

In: the rows of one table as they stand in LMDB.
Out: their content, found by the keys that callers use.
Caches in memory are made from the rows alone.
"""
