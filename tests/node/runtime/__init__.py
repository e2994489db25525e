"""Tests of what every part of a process may use."""
