"""Tests of chaos."""
