"""Tests of the consensus."""
