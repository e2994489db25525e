"""Tests of chaos/simulator/time."""
