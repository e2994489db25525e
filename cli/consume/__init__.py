"""Commands of consumers: pull messages, and settle them by their receipts.

In: a command's words. Out: one request to a node, and its answer as a table or as JSON.
One file a command; receipts.py is what all of them share.
"""
