"""Tests of what becomes of a hand-over."""
