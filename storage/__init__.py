"""Bytes on disk and the wheel over them. No asyncio, no network, no clock, no Raft."""
