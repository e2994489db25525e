"""Tests of checkpoints, retention, backups, exports and snapshots."""
