"""Tests of chaos/plan."""
