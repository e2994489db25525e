"""The level of a cluster: the newest version of entries that every member has been seen to read.

The level is part of the replicated state, so all nodes have the same level at the same entry. At level 1 a node writes
every byte as the first builds did: files, entries, receipts, frames and hash. Each later feature begins at its level in
`NEEDS`.

The leader raises the level by a command of the log (replication/command/level.py). It does so when every member has
said that it reads the next level. The level never goes down. From then on a build that does not read it is refused by
name.
"""

from typing import Final

FOUNDED: Final = 1
"""The level of a new cluster, and of every file and record that names no level."""

LEVELS: Final = (1, 4)
"""Oldest and newest level that this build reads."""

NEEDS: Final = {
    "by-receipt": 3,  # a lease says that its hand-over is known by an extension alone
    "atomic-batch": 4,  # messages are scheduled in one entry: all, or none
    "doubt": 3,  # the state keeps the hand-overs that a dead leader may have made, and settles say so
    "extend-later": 3,  # no extension ends a lease earlier
    "gone-with-its-place": 3,  # a dead message is not redriven once the hour where it died is unlinked
    "hash-version": 2,  # the rolling hash names its version
    "hello-group": 2,  # a hello names its group
    "idempotency-key": 4,  # the answer to a request is kept under its key, in the entry of its effect
    "lease-grace": 3,  # to a later leader a lease ends when it has ended by every clock
    "lazy-keys": 2,  # the keys of an unlinked hour are dropped a few with each entry
    "longer-silence": 2,  # a node that is late owes its leader a longer silence than is configured
    "operations": 4,  # many messages are cancelled at once, by a set that is fixed at one entry
    "pause-times": 4,  # a topic says since when it is paused, and when it was resumed last
    "receipt-namespace": 2,  # receipts carry group and namespace
    "supersede": 4,  # a new message changes its key's holder
    "term-mark": 3,  # the beginning of a term in a delivery log names the machine's run and the term before
}
"""The level from which each feature exists. A new feature gets a line here and asks `has`. No other code compares
levels."""


def has(level: int, feature: str) -> bool:
    """True if a cluster of this level has the feature, whose name must stand in `NEEDS`."""
    return level >= NEEDS[feature]


def hash_version(level: int) -> int:
    """The version of the rolling hash. Sums of different versions are never compared."""
    return 2 if has(level, "hash-version") else 1
