"""Rows and columns: what stands in files, byte by byte.

In: rows as bytes. Out: numpy arrays with names, and their checksums.
Knows no file: a room below may be read without a disk.
"""
