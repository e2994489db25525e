"""A table of the catalog: rows in LMDB, and over them in memory the changes since the last checkpoint.

In: rows to put, drop and look up, by one owner; a moment to freeze.
Out: the same rows; the changes, to be written in one transaction; a checksum of each entry's rows.
"""
