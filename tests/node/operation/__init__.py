"""Tests of operations, which change many messages at once."""
