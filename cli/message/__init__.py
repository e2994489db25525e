"""Commands of clients: messages, topics, lists, counts, the ledger.

In: a command's words. Out: one request to a node, and its answer as a table or as JSON.
One file a command.
"""
