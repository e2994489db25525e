"""A table of the catalog: rows in LMDB, and over them in memory what changed since the last checkpoint.

In: rows to put, drop and look up, by one owner; a moment to freeze.
Out: the same rows; what changed, to be written in one transaction; and a checksum of what each entry wrote.
"""
