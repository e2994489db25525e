"""Tests of the newest state of each unit."""
