"""Tests of the job of the reconciliation."""
