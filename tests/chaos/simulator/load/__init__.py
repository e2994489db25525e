"""Tests of chaos/simulator/load."""
