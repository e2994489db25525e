"""Tests of tidy."""
