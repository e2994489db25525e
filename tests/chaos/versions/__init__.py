"""Tests of chaos/versions."""
