"""Tests of what commands do to messages."""
