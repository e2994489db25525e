"""Tests of what crosses the line to the node."""
