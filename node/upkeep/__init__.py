"""Work beside serving: checkpoints, trimming of the journal, retention, backups, exports, snapshots.

In: a store that is in use. Out: durable files, hours that are unlinked, whole copies.

Blocking work runs in threads beside the loop, in steps of bounded length.
"""
