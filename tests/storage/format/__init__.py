"""Tests of rows and columns."""
