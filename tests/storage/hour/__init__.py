"""Tests of one hour."""
