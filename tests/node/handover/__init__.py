"""Tests of hand-overs, and of their leases."""
