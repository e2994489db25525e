"""Tests of chaos against real processes."""
