"""Simulated disks: real files, and an account of what a power cut would take from them.

In: the calls of storage/file/disk.py. Out: their results, or any error of a disk.
platter.py is a host's disk, disk.py that disk as one process has it.
"""
