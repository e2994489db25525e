"""Bytes on disk and the wheel over them. No asyncio, no network, no clock, no Raft.

In: batches of messages and the changes of units, each with the index of its Raft entry. Out: units that are due, reads
and counts. Other packages enter through store.py, which uses the rooms from `format`, the lowest, up to `query`.
`directory` and `export` work on whole data directories, without the store that may have them open.
"""
