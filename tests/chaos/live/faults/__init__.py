"""Tests of chaos/live/faults."""
