"""Tests of bench/peer."""
