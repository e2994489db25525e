"""Rows and columns: the content of files, byte by byte.

In: rows as bytes.
Out: numpy arrays with names, and their checksums.
Knows no file, so rows can be read without a disk.
"""
