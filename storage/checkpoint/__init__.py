"""All hours of a node, and how a moment of them becomes durable and is held.

In: staged bytes of each hour that changed.
Out: a checkpoint that a start opens, a snapshot that a follower fetches.
An hour without messages to keep is unlinked. Its directory goes after a checkpoint that no longer names it.
"""
