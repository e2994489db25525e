"""Tests of chaos/check/engine."""
