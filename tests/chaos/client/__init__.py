"""Tests of chaos/client."""
