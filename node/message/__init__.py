"""Messages and topics: looked up, and changed one by one or in bulk.

In: ids, filters and windows of time. Out: the state and history of messages, and commands that change them. A look-up
never waits for a whole count or search, because these go by pieces and other work of the loop goes between two pieces.
"""
