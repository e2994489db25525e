"""Tests of chaos/live/network."""
