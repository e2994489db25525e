"""What is replicated beside the hours: tables in LMDB, and the record of a checkpoint.

In: rows of topics, keys, members and the genesis, each in memory at once.
Out: the same, after a crash as of the last checkpoint. Its record names the lengths of each hour:
bytes behind them never were.
"""
