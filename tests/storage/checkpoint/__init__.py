"""Tests of all hours, and of their checkpoints."""
