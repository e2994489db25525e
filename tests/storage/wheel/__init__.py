"""Tests of the two-level wheel."""
