"""Tests of chaos/simulator/faults."""
