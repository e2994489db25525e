"""Tests of client/hourwheel/core."""
