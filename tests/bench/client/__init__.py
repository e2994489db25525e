"""Tests of bench/client."""
