"""Operations on a whole data directory: its lock, verify, install, back up, restore.

In: a directory that no node holds open, or pieces of another node's.
Out: a directory that a node opens, or its faults.
A directory is swapped at once: a crash leaves the old one or the new one.
"""
