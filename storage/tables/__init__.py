"""What is replicated in tables: a file for each, and the registry that says which there are.

In: the rows of one table as they stand in LMDB.
Out: what they mean, found by what is asked for. What is found in memory is made from the rows alone.
"""
