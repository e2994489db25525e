"""Tests of one term as leader."""
