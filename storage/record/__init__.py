"""Records, byte by byte: a message as it stands in the log, and one hand-over's start or end in the delivery log.

In: what a message is, or bytes of a log. Out: bytes of records, or what they say, each with its checksums looked at.
Knows no file: whoever has the bytes may read them.
"""
