"""Tests of chaos/scenario."""
