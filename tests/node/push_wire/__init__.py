"""Tests of the push wire."""
