"""Tests of cli/run."""
