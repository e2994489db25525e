"""Files that grow by appending, and the one home of file calls.

In: bytes to append, lengths to trust. Out: bytes read back, whole or refused.
disk.py alone calls the system; a failed write or sync is told to whoever asked.
"""
