"""Tests of chaos/check/message."""
