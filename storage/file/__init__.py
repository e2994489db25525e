"""Files that grow by appending, and the only home of file calls.

In: bytes to append, and the lengths up to which a checkpoint names the files.
Out: bytes read back, whole or refused.
Only disk.py calls the system. A failed write or sync is raised to its caller.
"""
