"""The catalog: replicated tables beside the hours, in LMDB, and the record of a checkpoint.

In: rows of topics, keys, members and the genesis. All are in memory at once.
Out: the same rows, after a crash as of the last checkpoint.
The checkpoint's record has the lengths of each hour's files. Bytes behind these lengths do not count.
"""
