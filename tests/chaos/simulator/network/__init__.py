"""Tests of chaos/simulator/network."""
