"""Tests of chaos/check."""
