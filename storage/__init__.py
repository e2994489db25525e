"""Bytes on disk and the wheel over them. No asyncio, no network, no clock, no Raft.

In: batches of messages and what befalls them, each with the index of its Raft entry. Out: what is due, read or counted.
store.py is the one door: the rooms behind it are its own, from `format` at the bottom to `query` at the top.
`directory` and `export` work on whole directories, beside a store that is open.
"""
