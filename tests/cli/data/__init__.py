"""Tests of cli/data."""
