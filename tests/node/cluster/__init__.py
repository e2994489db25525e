"""Tests of members, transfers, clocks and status."""
