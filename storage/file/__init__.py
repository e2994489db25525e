"""Files that grow by appending, and the only home of file calls.

In: bytes to append, lengths to trust.
Out: bytes read back, whole or refused.
Only disk.py calls the system. A failed write or sync is raised to its caller.
"""
