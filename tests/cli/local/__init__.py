"""Tests of cli/local."""
