"""Tests of the calls between nodes."""
