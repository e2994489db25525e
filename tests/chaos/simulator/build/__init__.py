"""Tests of chaos/simulator/build."""
