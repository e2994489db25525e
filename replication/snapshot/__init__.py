"""Sends a checkpoint to a follower that is too far behind for the log.

In: the leader's pinned checkpoint. Out: the same bytes in the follower's directory, all of them or none. Both sides
work in threads beside the loop, a piece at a time.
"""
