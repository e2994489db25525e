"""The catalog: replicated tables beside the hours, in LMDB, and the record of a checkpoint.

In: rows of topics, keys, members and the genesis. A look-up finds a row as soon as it is set.
Out: the same rows. After a crash they are those of the last checkpoint.
The checkpoint's record has the lengths of each hour's files. Bytes behind these lengths do not count.
"""
