"""Tests of what the job writes, and of repairs."""
