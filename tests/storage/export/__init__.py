"""Tests of what is shipped for the reconciliation."""
