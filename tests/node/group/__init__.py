"""Tests of a group as a whole."""
