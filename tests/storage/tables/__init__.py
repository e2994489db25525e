"""Tests of what is replicated beside the hours."""
