"""GET /v1/ledger: which messages were handed over, by which node, and which hand-overs are missing or repeated.

In: the records that all members are asked for. Out: accounts of messages, page by page, and which records were missing.
The package `ledger/` has the rules.
"""
