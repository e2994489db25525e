"""Tests of what commands do to the store."""
