"""Tests of the bytes of entries and commands."""
