"""Work beside serving: checkpoints, trimming of the journal, retention, backups, exports, snapshots.

In: a store that is in use. Out: durable files, hours that are unlinked, whole copies.
Threads work beside the loop; each step of theirs is bounded.
"""
