"""Tests of chaos/simulator/disk."""
