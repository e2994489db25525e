"""Tests of consumers that ask."""
