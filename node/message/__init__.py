"""Messages and topics, looked up and changed one by one or in bulk.

In: ids, filters and windows of time. Out: what the log says of them, and commands that change it.
A look-up never waits for a large one: counts and searches go by pieces.
"""
