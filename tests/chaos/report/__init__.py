"""Tests of chaos/report."""
