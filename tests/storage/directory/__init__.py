"""Tests of operations on a data directory."""
