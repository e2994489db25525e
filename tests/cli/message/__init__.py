"""Tests of cli/message."""
