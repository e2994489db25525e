"""Tests of a checkpoint on its way to a follower."""
