"""Records, byte by byte: a message as it stands in the log, and one hand-over's start or end in the delivery log.

In: the fields of a message, or bytes of a log.
Out: bytes of records, or their fields, with all checksums verified.
Knows no file, so any bytes of records can be read.
"""
