"""Work beside serving: checkpoints, the journal's end, retention, backups, exports, snapshots.

In: a store that goes on. Out: files that are durable, hours that are gone, copies that are whole.
Threads work beside the loop; each step of theirs is bounded.
"""
