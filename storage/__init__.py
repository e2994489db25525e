"""Bytes on disk and the wheel over them. No asyncio, no network, no clock, no Raft.

In: batches of messages and the changes of units, each with the index of its Raft entry. Out: units that are due, reads
and counts. Other packages come in through store.py. Its rooms lie below it, from `format` at the bottom to `query` at
the top. `directory` and `export` work on whole directories, beside a store that is open.
"""
