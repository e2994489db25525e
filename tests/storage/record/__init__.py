"""Tests of the record of a message."""
