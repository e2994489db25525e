"""The record of a message, as it stands in the log: encoded, rewritten for a move, read one by one or in columns.

In: what a message is, or bytes of a log. Out: bytes of records, or messages again, each with its checksums looked at.
Knows no file: whoever has the bytes may read them.
"""
