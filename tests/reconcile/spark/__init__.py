"""Tests of the data source, sessions and tasks."""
