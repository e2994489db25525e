"""Tests of chaos/load."""
