"""Tests of chaos/cluster."""
