"""Tests of bench/demo."""
