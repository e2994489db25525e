"""Commands of clients: messages, receipts, topics, counts, the ledger.

In: a command's words. Out: one request to a node, and its answer as a table or as JSON.
One file a command; receipts.py is what ack, nack and extend share.
"""
