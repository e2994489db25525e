"""Tests of chaos/simulator/world."""
